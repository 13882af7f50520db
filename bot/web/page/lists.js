// The threads at the side, the list of runs, the agents.

import { page } from "./api.js";
import { ago, back, duration, h, line, notice, when, words } from "./dom.js";
import { statusBadge } from "./run.js";
import { capabilityOf, newest, older, store, waiting } from "./store.js";

// threads draws the list at the side again.
export function threads(list, chosen, filter) {
  const runs = newest(), asked = waiting(), word = filter.trim().toLowerCase();
  const rows = store.tasks.filter((t) => !word || t.title.toLowerCase().includes(word)).map((t) => {
    const x = runs.get(t.id);
    const dot = x ? `${x.status} ${x.status === "running" ? x.activity ?? "" : ""}` : t.status;
    const state = asked.has(t.id) ? "waits for you" : x ? words(x.status === "running" ? x.activity || "running" : x.status) : words(t.status);
    return h("li", null, h("a", { href: "#/t/" + t.id, "aria-current": t.id === chosen ? "page" : null, class: asked.has(t.id) ? "asks" : "" },
      h("span", { class: "dot " + dot, "aria-hidden": "true" }), h("span", { class: "title", dir: "auto" }, line(t.title, 120)),
      h("span", { class: "sub" }, x ? `#${x.number} · ${state}` : state), h("span", { class: "age" }, ago(x?.createdAt ?? t.createdAt))));
  });
  if (!rows.length) rows.push(h("li", { class: "empty" }, word ? "No thread is called that." : "No threads yet. Start one with “New run”."));
  if (store.more && !word) rows.push(h("li", null, h("button", { type: "button", class: "more", onclick: older }, "Older threads")));
  const at = list.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  list.replaceChildren(...rows);
  if (at) list.querySelector(`a[href="${CSS.escape(at)}"]`)?.focus();
}

const statuses = ["queued", "running", "cancelling", "succeeded", "failed", "timed_out", "cancelled"];

// runs is the list of all runs, by status.
export class Runs {
  constructor(status) {
    this.status = statuses.includes(status) ? status : "";
    this.pages = 1;
    this.body = h("tbody");
    this.more = h("button", { type: "button", class: "more", hidden: true, onclick: () => { this.pages++; this.update(); } }, "Older runs");
    const chip = (s) => h("a", { class: "chip", href: "#/runs" + (s ? "/" + s : ""), "aria-current": s === this.status ? "page" : null }, s ? words(s) : "all");
    this.element = h("section", { class: "panel" }, h("header", { class: "top" }, back(), h("h1", null, "Runs")), h("nav", { class: "chips", "aria-label": "Status" }, chip(""), statuses.map(chip)),
      h("div", { class: "wide" }, h("table", { class: "list" }, h("thead", null, h("tr", null, ["Run", "Status", "What", "Agent", "Started", "Took"].map((t) => h("th", { scope: "col" }, t)))), this.body)), this.more);
    this.update();
  }

  close() {}

  async update() {
    try {
      const lists = await Promise.all([...Array(this.pages).keys()].map((i) => page(`api/executions?pageSize=100&page=${i + 1}` + (this.status ? "&status=" + this.status : ""))));
      const rows = lists.flatMap((l) => l.data);
      this.more.hidden = rows.length >= lists[0].meta.total;
      this.body.replaceChildren(...rows.map(row));
      if (!rows.length) this.body.append(h("tr", null, h("td", { colspan: 6, class: "empty" }, "There are none.")));
    } catch (e) { notice(e.message); }
  }
}

function row(x) {
  const took = x.startedAt ? duration((x.endedAt ? new Date(x.endedAt) : Date.now()) - new Date(x.startedAt)) : "";
  return h("tr", null, h("td", null, h("a", { href: "#/t/" + x.taskId }, "#" + x.number)), h("td", null, statusBadge(x)), h("td", null, line(capabilityOf(x)?.label ?? x.capabilityId, 60)),
    h("td", null, line(x.agentId, 30)), h("td", null, when(x.createdAt)), h("td", { class: "elapsed" }, took));
}

// Agents lists the agents and whether they can run here.
export class Agents {
  constructor() {
    this.list = h("div", { class: "cards" });
    this.element = h("section", { class: "panel" }, h("header", { class: "top" }, back(), h("h1", null, "Agents")), this.list);
    this.update();
  }

  close() {}

  update() {
    this.list.replaceChildren(...store.agents.map(agent));
  }
}

function agent(a) {
  const can = Object.entries(a.traits).filter(([, v]) => v === true).map(([k]) => k);
  const state = a.availability;
  return h("article", { class: "card" },
    h("div", { class: "row" }, h("b", null, line(a.id, 60)), h("span", { class: "badge " + (state.ok ? "succeeded" : "failed") }, state.ok ? "available" : "not available"),
      h("span", { class: "gap" }), h("span", { class: "dim" }, `${a.running} running, ${a.queued} queued` + (a.maxConcurrent ? `, at most ${a.maxConcurrent}` : ""))),
    h("p", { class: "facts" }, [line(a.adapter, 40), state.version && line(state.version, 60), line(a.workingDir, 200)].filter(Boolean).join(" · ")),
    !state.ok && h("p", { class: "problem" }, line(state.problem, 400), state.hint ? " " + line(state.hint, 400) : ""),
    h("p", { class: "dim" }, can.length ? "It takes " + can.join(", ") + "." : "It runs and ends; it takes no messages."));
}
