// One run within a thread: its card and the conversation with the agent.

import { get, page, post, stream } from "./api.js";
import { ask } from "./asks.js";
import { count, duration, h, line, money, notice, when, words } from "./dom.js";
import { entry } from "./entries.js";
import { logView } from "./log.js";
import { agentOf, capabilityOf, ended, position, refresh } from "./store.js";

const forceAfter = 5_000; // ms: a second click before that would only be an impatient first one
const shown = 400; // entries of a run on the page; older ones come on demand
const batch = 1000;
const undelivered = " · never reached the agent";

export class Run {
  // host is told what changes (know, grow), and where a reply is wanted (reply).
  constructor(x, host, open) {
    Object.assign(this, { x, host, entries: new Map(), nodes: new Map(), dirty: new Set(), approvals: new Map(), waiting: new Map() });
    Object.assign(this, { seq: 0, limit: shown, loaded: false, usage: null });
    this.card = h("header", { class: "card" });
    this.talk = h("div", { class: "talk" });
    this.queue = h("div", { class: "waiting", "aria-live": "polite" });
    this.element = h("article", { class: "run", "aria-label": `Run #${x.number}` }, this.card, this.talk, this.queue);
    this.drawCard();
    if (open || !ended(x)) this.open();
    else this.talk.append(h("button", { type: "button", class: "more", onclick: () => this.open() }, "Show the conversation"));
  }

  close() {
    this.stop?.();
    this.log?.close();
    clearTimeout(this.timer);
  }

  // update takes the execution as it is now.
  update(x) {
    const waits = x.activity !== this.x.activity || x.status !== this.x.status;
    const turned = ended(x) && !ended(this.x);
    this.x = x;
    this.host.know(x);
    this.drawCard();
    if (waits || this.openAsks()) this.readApprovals();
    if (turned) for (const el of this.waiting.values()) el.lastChild.textContent = undelivered;
  }

  async open() {
    if (this.loaded) return;
    this.loaded = true;
    this.talk.replaceChildren();
    if (this.x.logsDeleted) {
      this.talk.append(h("p", { class: "dim" }, "Its files were removed, as the retention says."));
      return;
    }
    this.readApprovals();
    this.readWaiting();
    if (ended(this.x)) { await this.read(); return; }
    this.stop = stream(() => `api/executions/${this.x.id}/entries/stream?after=${this.seq}`, {
      entry: (e) => this.take(e),
      status: (s) => { if (s.status !== this.x.status || s.activity !== this.x.activity) this.update({ ...this.x, status: s.status, activity: s.activity }); },
      done: () => { this.stop(); refresh(); },
    });
  }

  async read() {
    try {
      for (let list; ;) {
        list = await page(`api/executions/${this.x.id}/entries?after=${this.seq}&limit=${batch}`);
        for (const e of list.data) this.take(e);
        if (list.data.length < batch) return;
      }
    } catch (e) { notice(e.message); }
  }

  async readApprovals() {
    try {
      for (const a of await get(`api/approvals?state=all&executionId=${this.x.id}`)) {
        const known = this.approvals.get(a.askId);
        this.approvals.set(a.askId, a);
        if (known?.state === a.state) continue;
        for (const key of [`approval:${a.askId}`, `question:${a.askId}`]) if (this.entries.has(key)) this.mark(key);
      }
    } catch { /* the next change reads them again */ }
  }

  openAsks() {
    return [...this.entries.values()].some((e) => e.ask?.state === "open" && this.approvals.get(e.id)?.state !== "decided");
  }

  // readWaiting shows the messages that the agent has not taken, or never did.
  async readWaiting() {
    try {
      for (const c of await get(`api/executions/${this.x.id}/commands`)) {
        if (c.op === "message" && c.state !== "handed") this.wait(c.id, c.message.text);
      }
    } catch { /* a courtesy */ }
  }

  // wait shows a message until its entry comes.
  wait(id, text) {
    if (this.entries.has("user:" + id) || this.waiting.has(id)) return;
    const el = h("div", { class: "entry user pending", dir: "auto" }, line(text, 1000), h("span", { class: "dim" }, ended(this.x) ? undelivered : " · waits for the agent"));
    this.waiting.set(id, el);
    this.queue.append(el);
  }

  // take puts an entry where it belongs: in the place of an earlier one with its id, at
  // the end of that one's text, or at the end of all.
  take(e) {
    if (e.seq <= this.seq) return;
    this.seq = e.seq;
    if (e.usage) { this.usage = e.usage; this.drawCard(); }
    if (e.kind === "usage" || e.kind === "status") return;
    const key = e.id ? `${e.kind}:${e.id}` : `:${e.seq}`;
    const old = this.entries.get(key);
    if (old && e.append) old.content = (old.content ?? "") + (e.content ?? "");
    else this.entries.set(key, old ? { ...e, first: old.first } : { ...e });
    if (e.kind === "user") { this.waiting.get(e.id)?.remove(); this.waiting.delete(e.id); }
    if (e.ask?.state === "open") this.readApprovals();
    this.mark(key);
  }

  mark(key) {
    this.dirty.add(key);
    this.frame ||= requestAnimationFrame(() => this.draw());
  }

  // draw renders what changed, and only as many of the last entries as are shown.
  draw() {
    this.frame = 0;
    this.host.grow(() => {
      for (const key of this.dirty) this.drawEntry(key);
      this.dirty.clear();
      while (this.nodes.size > this.limit) {
        const [key, node] = this.nodes.entries().next().value;
        node.remove();
        this.nodes.delete(key);
        this.cut = true;
      }
      if (this.cut && !this.earlier) {
        this.earlier = h("button", { type: "button", class: "more", onclick: () => this.showEarlier() }, "Show what was before");
        this.talk.prepend(this.earlier);
      }
    });
  }

  drawEntry(key) {
    const e = this.entries.get(key);
    const node = e.kind === "approval" || e.kind === "question" ? ask(e, this.approvals.get(e.id)) : entry(e);
    if (!node) return;
    const old = this.nodes.get(key);
    this.nodes.set(key, node);
    if (!old) { this.talk.append(node); return; }
    if (old.open !== undefined && old.open) node.open = true;
    old.replaceWith(node);
  }

  showEarlier() {
    this.limit *= 4;
    this.cut = false;
    this.earlier.remove();
    this.earlier = null;
    this.nodes.clear();
    this.talk.replaceChildren();
    const keys = [...this.entries.keys()];
    this.cut = keys.length > this.limit;
    for (const key of keys.slice(-this.limit)) this.mark(key);
  }

  drawCard() {
    const { x } = this;
    const label = capabilityOf(x)?.label ?? x.capabilityId;
    const use = this.usage ?? x.usage ?? {};
    const tokens = (use.inputTokens ?? 0) + (use.outputTokens ?? 0);
    const facts = [line(label, 80), label !== x.agentId && line(x.agentId, 40), "by " + line(x.requestedBy, 40), when(x.createdAt),
      tokens > 0 && h("span", { title: `${use.inputTokens} in, ${use.outputTokens} out` }, count(tokens) + " tokens"), use.costUsd > 0 && money(use.costUsd) + (x.budget?.capUsd ? ` of ${money(x.budget.capUsd)}` : ""), x.status === "queued" && queued(x)];
    const focused = this.card.contains(document.activeElement) && document.activeElement.dataset.name;
    const rows = [
      h("div", { class: "row" }, h("b", { class: "number" }, "#" + x.number), statusBadge(x), this.elapsed(), h("span", { class: "gap" }), h("div", { class: "buttons" }, this.buttons())),
      h("p", { class: "facts" }, facts.filter(Boolean).flatMap((f, i) => (i ? [" · ", f] : [f]))),
      x.budget?.warning && !ended(x) && h("p", { class: "problem" }, line(x.budget.warning, 300)),
      this.outcome()];
    this.card.replaceChildren(...rows.filter(Boolean));
    if (focused) this.card.querySelector(`[data-name="${focused}"]`)?.focus();
  }

  // elapsed ticks by itself while the run goes on.
  elapsed() {
    clearTimeout(this.timer);
    const { x } = this;
    if (!x.startedAt) return null;
    const from = new Date(x.startedAt);
    const el = h("span", { class: "elapsed", role: "timer", "aria-live": "off" });
    const tick = () => {
      el.textContent = duration((x.endedAt ? new Date(x.endedAt) : Date.now()) - from);
      if (!ended(x)) this.timer = setTimeout(tick, 1000);
    };
    tick();
    return el;
  }

  outcome() {
    const { x } = this;
    if (!ended(x)) return null;
    const parts = [];
    if (x.reason) parts.push(words(x.reason));
    if (x.exitCode) parts.push(`exit code ${x.exitCode}`);
    if (x.error) parts.push(line(x.error, 400));
    if (x.resetsAt) parts.push("try again at " + new Date(x.resetsAt).toLocaleString());
    if (x.status === "cancelled") parts.push(`${x.processesEnded ?? 0} processes ended, ${x.processesLeft ?? 0} left`);
    return parts.length ? h("p", { class: "outcome " + x.status }, parts.join(" · ")) : null;
  }

  buttons() {
    const { x } = this;
    const traits = agentOf(x)?.traits ?? {};
    const button = (name, act, kind = "") => h("button", { type: "button", class: kind, "data-name": name, onclick: act }, name);
    const list = [];
    if (x.status === "queued" || x.status === "running") list.push(button("Cancel", () => this.order("cancel"), "danger"));
    if (x.status === "cancelling") list.push(this.force());
    if (x.status === "running" && x.activity === "working" && traits.interrupt) list.push(button("Interrupt", () => this.order("interrupt")));
    if (ended(x)) {
      list.push(button("Retry", () => this.order("retry")));
      if (traits.resume && x.sessionRef) list.push(button("Resume", () => this.host.reply(x)));
    }
    if (x.startedAt && !x.logsDeleted) list.push(h("button", { type: "button", "data-name": "Log", "aria-expanded": String(!!this.log), onclick: () => this.toggleLog() }, "Log"));
    return list;
  }

  // force is offered once the polite end has had its time.
  force() {
    this.cancelledAt ??= Date.now();
    const b = h("button", { type: "button", class: "danger", "data-name": "Cancel", disabled: true, onclick: () => this.order("cancel", { force: true }) }, "Stopping…");
    const left = this.cancelledAt + forceAfter - Date.now();
    setTimeout(() => { b.disabled = false; b.textContent = "Force"; }, Math.max(0, left));
    return b;
  }

  async order(what, body) {
    try {
      await post(`api/executions/${this.x.id}/${what}`, body);
    } catch (e) { notice(e.message); }
    refresh();
  }

  toggleLog() {
    if (this.log) {
      this.log.close();
      this.log.element.remove();
      this.log = null;
    } else {
      this.log = logView(this.x);
      this.card.after(this.log.element);
    }
    this.drawCard();
  }
}

const queued = (x) => (x.notBefore && new Date(x.notBefore) > Date.now() ? `parked until ${new Date(x.notBefore).toLocaleString()}` : `place ${position(x)} in the queue`);

const phrases = { approval: "wants a permission", question: "has a question" };

// statusBadge says where an execution stands: its activity while it runs.
export function statusBadge(x) {
  const live = x.status === "running" && x.activity;
  const text = live ? phrases[x.activity] ?? x.activity : words(x.status);
  return h("span", { class: `badge ${x.status} ${live ? x.activity : ""}` }, text);
}
