// One thread: the runs of a task in order, and the composer.

import { get, post } from "./api.js";
import { back, h, line, newID, notice } from "./dom.js";
import { Run } from "./run.js";
import { agentOf, ended, refresh } from "./store.js";

const unfolded = 3; // of the last runs, whose conversation is read at once

const tookIt = { started: "The agent has it.", steered: "It went into the running turn.", queued: "It waits until the running turn has ended." };

export class Thread {
  constructor(taskID) {
    this.id = taskID;
    this.runs = new Map();
    this.title = h("h1", { dir: "auto" });
    this.list = h("div", { class: "runs", role: "log", "aria-label": "Conversation", "aria-live": "polite", "aria-relevant": "additions" });
    this.scroller = h("div", { class: "scroll", tabindex: -1 }, this.list);
    this.said = h("p", { class: "said", role: "status" });
    this.text = h("textarea", { rows: 1, "aria-label": "Message", dir: "auto", onkeydown: (e) => this.key(e), oninput: () => this.fit() });
    this.submit = h("button", { class: "primary" }, "Send");
    this.composer = h("form", { class: "composer", onsubmit: (e) => { e.preventDefault(); this.send(); } }, this.text, this.submit);
    this.down = h("button", { type: "button", class: "down", hidden: true, onclick: () => this.toEnd() }, "↓ Newest");
    this.follows = true;
    this.scroller.addEventListener("scroll", () => { this.follows = this.atEnd(); this.down.hidden = this.follows; }, { passive: true });
    this.resized = new ResizeObserver(() => { if (this.follows) this.toEnd(); });
    this.resized.observe(this.scroller);
    this.element = h("section", { class: "thread" }, h("header", { class: "top" }, back(), this.title),
      this.scroller, this.down, this.said, this.composer);
    this.draft = sessionStorage.getItem("draft:" + taskID) ?? "";
    this.text.value = this.draft;
    this.update();
  }

  close() {
    this.closed = true;
    this.resized.disconnect();
    for (const r of this.runs.values()) r.close();
  }

  // update reads the thread's executions again.
  async update() {
    let list;
    try {
      list = await get(`api/executions?taskId=${encodeURIComponent(this.id)}&pageSize=200`);
      this.task ??= await get(`api/tasks/${encodeURIComponent(this.id)}`);
    } catch (e) {
      if (e.status === 404) this.list.replaceChildren(h("p", { class: "empty" }, "This thread does not exist."));
      return;
    }
    if (this.closed) return;
    this.title.textContent = line(this.task.title, 300);
    list.reverse().forEach((x, i) => {
      const known = this.runs.get(x.id);
      if (known) { known.update(x); return; }
      const run = new Run(x, this, i >= list.length - unfolded);
      this.runs.set(x.id, run);
      this.grow(() => this.list.append(run.element));
    });
    this.newest = list.at(-1);
    this.invite();
  }

  // know takes what a run has learned before the lists were read again.
  know(x) {
    if (x.id !== this.newest?.id) return;
    this.newest = x;
    this.invite();
  }

  // invite says what a message will do.
  invite() {
    const x = this.newest;
    const traits = x && (agentOf(x)?.traits ?? {});
    const can = x && (ended(x) ? traits.resume && x.sessionRef : traits.messages && x.status !== "cancelling");
    this.text.disabled = this.submit.disabled = !can;
    if (!x) this.text.placeholder = "Nothing runs here yet";
    else if (!can) this.text.placeholder = x.status === "cancelling" ? `#${x.number} is being stopped` : `${line(x.agentId, 30)} takes no messages here: use Retry or a new run`;
    else this.text.placeholder = ended(x) ? `Reply: resumes #${x.number} as a new run` : `Message to #${x.number}`;
  }

  reply() {
    this.text.focus();
    this.said.textContent = "What you send resumes it, as a new run in this thread.";
  }

  key(e) {
    if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
    e.preventDefault();
    this.send();
  }

  fit() {
    this.text.style.height = "auto";
    this.text.style.height = Math.min(this.text.scrollHeight + 2, 240) + "px";
    sessionStorage.setItem("draft:" + this.id, this.text.value);
  }

  // send hands the message to the live run, or resumes the one that has ended. What
  // could not be sent stays in the composer under its id, so trying again does not double it.
  async send() {
    const text = this.text.value;
    if (!text.trim() || this.sending || !this.newest) return;
    this.sending = true;
    if (this.pending?.text !== text) this.pending = { text, id: newID() };
    try {
      this.said.textContent = await this.deliver(this.pending);
      this.pending = null;
      this.text.value = "";
      this.fit();
      this.toEnd();
    } catch (e) {
      this.said.textContent = "";
      notice(e.message);
    }
    this.sending = false;
    refresh();
  }

  async deliver({ text, id }) {
    const x = await get(`api/executions/${this.newest.id}`); // as it is now
    if (!ended(x)) {
      try {
        const sent = await post(`api/executions/${x.id}/message`, { id, text });
        if (!["started", "steered"].includes(sent.how)) this.runs.get(x.id)?.wait(id, text);
        return tookIt[sent.how] ?? "It is stored, and the agent gets it as soon as it can.";
      } catch (e) {
        if (e.status !== 409 || !ended(await get(`api/executions/${x.id}`))) throw e;
      } // it ended just now: what was meant for it resumes it
    }
    const next = await post("api/executions", { parentId: x.id, resume: true, text, idempotencyKey: id });
    return `#${x.number} had ended: resumed as #${next.number}.`;
  }

  atEnd() {
    return this.scroller.scrollHeight - this.scroller.scrollTop - this.scroller.clientHeight < 120;
  }

  toEnd() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  // grow changes what is shown and stays at the end where the reader was there.
  grow(change) {
    const follow = this.atEnd();
    change();
    if (follow) this.toEnd();
    this.down.hidden = this.atEnd();
  }
}
