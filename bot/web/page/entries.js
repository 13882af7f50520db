// Entries of a run as elements: what people and the agent said, what it thought and did.

import { bytes, clean, h, line, words } from "./dom.js";
import { codeBlock, markdown } from "./markdown.js";

const foldAt = 24_000; // characters; more than that is folded, so that nothing freezes
const foldTo = 6_000;
const chunk = 50_000; // of an unfolded text: each piece is laid out when it is looked at
const longLine = 4_000;

// entry makes an entry's element; null for what is shown elsewhere.
export function entry(e) {
  switch (e.kind) {
  case "user": return said(e, "user", "You");
  case "assistant": return said(e, "assistant", null);
  case "thinking": return fold("thinking", "Thinking", line(e.content, 80), () => body(e.content));
  case "tool_use": return tool(e);
  case "error": return h("div", { class: "entry error", role: "note" }, h("strong", null, "Error "), ...body(e.content));
  case "system": return h("div", { class: "entry system" }, ...body(e.content));
  }
  return null;
}

function said(e, kind, who) {
  return h("div", { class: "entry " + kind, dir: "auto" }, who && h("span", { class: "visually-hidden" }, who + ": "), ...body(e.content));
}

// body renders text, folded where it is long.
export function body(text) {
  text ??= "";
  if (text.length > foldAt || longest(text) > longLine) return [folded(text)];
  return markdown(clean(text));
}

function longest(text) {
  let most = 0;
  for (let at = 0, end; at < text.length; at = end + 1) {
    end = text.indexOf("\n", at);
    if (end < 0) end = text.length;
    most = Math.max(most, end - at);
  }
  return most;
}

// folded shows the beginning of a long text and, on demand, all of it as plain text.
function folded(text) {
  const start = h("pre", { class: "plain", dir: "auto" }, clean(text.slice(0, foldTo)));
  if (text.length <= foldTo) return start;
  const more = h("button", { type: "button", class: "more", onclick: () => {
    const rest = clean(text);
    start.textContent = "";
    for (let i = 0; i < rest.length; i += chunk) start.append(h("span", { class: "chunk" }, rest.slice(i, i + chunk)));
    more.remove();
  } }, `Show all of it (${bytes(text.length)})`);
  return h("div", { class: "folded" }, start, more);
}

function fold(kind, title, hint, content, open = false) {
  const d = h("details", { class: "entry " + kind, open }, h("summary", null, h("span", { class: "what" }, title), h("span", { class: "hint" }, hint)));
  const fill = () => { if (d.open && d.children.length === 1) d.append(h("div", { class: "inside" }, ...content())); };
  d.addEventListener("toggle", fill);
  fill();
  return d;
}

const marks = { created: "○", running: "◐", success: "✓", failed: "✗" };

function tool(e) {
  const t = e.tool ?? {};
  const what = t.command || t.path || line(e.content, 120) || line(JSON.stringify(t.input ?? ""), 120);
  const exit = t.exitCode ? `exit ${t.exitCode}` : "";
  const d = fold("tool " + t.status, h("span", null, h("span", { class: "mark", title: words(t.status), role: "img", "aria-label": words(t.status) }, marks[t.status] ?? "·"), " ", line(t.name, 40)),
    [h("code", { dir: "ltr" }, line(what, 160)), exit && h("span", { class: "exit" }, exit)], () => inside(e, t));
  return d;
}

function inside(e, t) {
  return [
    t.command && codeBlock(limited(t.command)),
    t.path && h("p", { class: "path" }, line(t.path, 500)),
    t.diff && diff(t.diff),
    !t.command && !t.diff && t.input && codeBlock(limited(pretty(t.input)), "arguments"),
    e.content && e.content !== t.command && body(e.content),
    t.result && folded(t.result),
  ].flat().filter(Boolean);
}

export function pretty(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

export function limited(text) {
  return clean(text.length > foldAt ? text.slice(0, foldAt) + "\n… (the log has all of it)" : text);
}

function diff(text) {
  const kinds = { "+": "added", "-": "removed", "@": "where" };
  const rows = limited(text).split("\n").map((s) => h("span", { class: kinds[s[0]] ?? "same" }, s + "\n"));
  return h("pre", { class: "diff", dir: "ltr", tabindex: 0 }, rows);
}
