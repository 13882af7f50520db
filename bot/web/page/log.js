// The log of a run, as it grows.

import { stream } from "./api.js";
import { clean, h } from "./dom.js";

const keep = 4000; // lines on the page; the download has all
const first = 1000; // last lines to begin with
const longest = 10_000; // characters of one line

// logView makes the panel; close ends its stream.
export function logView(x) {
  let offset = 0, over = false, pending = [], pause = false, frame = 0;
  const text = h("pre", { class: "log", tabindex: 0, dir: "ltr", "aria-label": `Log of #${x.number}` });
  const state = h("span", { class: "dim", role: "status" }, "reading…");
  const follow = h("input", { type: "checkbox", checked: true, onchange: () => { pause = !follow.checked; if (!pause) draw(); } });
  const draw = () => {
    frame = 0;
    if (pause && text.childElementCount) { state.textContent = `paused, ${pending.length} new pieces`; return; }
    for (const p of pending) {
      for (const l of p.content.replace(/\n$/, "").split("\n")) {
        text.append(h("span", { class: p.stream }, clean(l.length > longest ? l.slice(0, longest) + "…" : l) + "\n"));
      }
    }
    pending = [];
    while (text.childElementCount > keep) text.firstChild.remove();
    text.scrollTop = text.scrollHeight;
    state.textContent = over ? "complete" : "live";
  };
  const add = (p, id) => {
    offset = id || offset;
    if (p.content) pending.push(p);
    frame ||= requestAnimationFrame(draw);
  };
  text.addEventListener("scroll", () => {
    const end = text.scrollHeight - text.scrollTop - text.clientHeight < 40;
    if (!end && follow.checked) { follow.checked = false; pause = true; }
  });
  const end = stream(() => `api/executions/${x.id}/logs/stream?` + (offset ? `offset=${offset}` : `tail=${first}`), {
    catchup: add, log: add, done: () => { over = true; end(); frame ||= requestAnimationFrame(draw); },
  }, { lost: () => { if (!over) state.textContent = "reconnecting…"; }, opened: () => { frame ||= requestAnimationFrame(draw); } });
  const element = h("section", { class: "logpanel", "aria-label": "Log" },
    h("div", { class: "bar" }, h("b", null, "Log"), state, h("span", { class: "gap" }), h("label", null, follow, " Follow"),
      h("a", { href: `api/executions/${x.id}/logs`, download: `threadmill-${x.number}.log` }, "Download")), text);
  return { element, close: end };
}
