// CommonMark, as far as agents use it, straight into elements: headings, lists, quotes,
// fenced code, tables, emphasis, code, links. There is no step in which text is markup,
// so there is nothing to sanitise; what is not understood stays text.

import { h } from "./dom.js";

const fence = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const bullet = /^( *)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const rule = /^ {0,3}([-*_])( *\1){2,} *$/;
const maxDepth = 8; // of quotes and lists within each other

export function markdown(text, depth = 0) {
  const lines = text.split("\n");
  const out = [];
  for (let i = 0; i < lines.length;) {
    const [node, next] = block(lines, i, depth);
    if (node) out.push(node);
    i = next;
  }
  return out;
}

// block takes the block that begins at line i and returns it with the line behind it.
function block(lines, i, depth) {
  const s = lines[i];
  if (!s.trim()) return [null, i + 1];
  let m = fence.exec(s);
  if (m) return code(lines, i, m);
  m = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/.exec(s);
  if (m) return [h("h" + Math.min(6, m[1].length + 2), null, inline(m[2])), i + 1];
  if (rule.test(s)) return [h("hr"), i + 1];
  if (depth < maxDepth && /^ {0,3}>/.test(s)) return quote(lines, i, depth);
  if (depth < maxDepth && bullet.test(s)) return list(lines, i, depth);
  if (s.includes("|") && /^[\s|:-]*-[\s|:-]*$/.test(lines[i + 1] ?? "") && lines[i + 1].includes("|")) return table(lines, i);
  return paragraph(lines, i, depth);
}

// code takes everything up to a fence at least as long as the first one, so shorter
// fences inside stay text.
function code(lines, i, [, mark, info]) {
  const end = new RegExp(`^ {0,3}${mark[0] === "`" ? "`" : "~"}{${mark.length},}\\s*$`);
  const body = [];
  for (i++; i < lines.length && !end.test(lines[i]); i++) body.push(lines[i]);
  const language = info.trim().split(/\s/)[0];
  return [codeBlock(body.join("\n"), language), i + 1];
}

// codeBlock shows code with its language and a button that copies it.
export function codeBlock(text, language = "") {
  const copy = h("button", { type: "button", class: "copy", "aria-label": "Copy the code", onclick: async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = "Copied";
    } catch { copy.textContent = "Not allowed"; } // without https browsers refuse
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  } }, "Copy");
  return h("figure", { class: "code" }, h("figcaption", null, language, copy),
    h("pre", { dir: "ltr", tabindex: 0 }, h("code", null, text)));
}

function quote(lines, i, depth) {
  const body = [];
  for (; i < lines.length && /^ {0,3}>/.test(lines[i]); i++) body.push(lines[i].replace(/^ {0,3}> ?/, ""));
  return [h("blockquote", null, markdown(body.join("\n"), depth + 1)), i];
}

// list takes items of one kind; what is indented under an item belongs to it.
function list(lines, i, depth) {
  const [, indent, mark] = bullet.exec(lines[i]);
  const ordered = /\d/.test(mark);
  const el = h(ordered ? "ol" : "ul", ordered ? { start: parseInt(mark, 10) } : null);
  while (i < lines.length) {
    const m = bullet.exec(lines[i]);
    if (!m || m[1].length > indent.length + 1 || m[1].length < indent.length || /\d/.test(m[2]) !== ordered) break;
    const body = [m[3]];
    const inner = m[1].length + 2;
    for (i++; i < lines.length; i++) {
      const s = lines[i];
      if (!s.trim() ? !/^ {2,}\S/.test(lines[i + 1] ?? "") : s.search(/\S/) < inner) break;
      body.push(s.slice(Math.min(inner, s.search(/\S|$/))));
    }
    el.append(item(body, depth));
    while (i + 1 < lines.length && !lines[i].trim() && bullet.test(lines[i + 1])) i++; // a loose list
  }
  return [el, i];
}

function item(body, depth) {
  const box = /^\[([ xX])\] (.*)$/.exec(body[0]);
  if (box) body[0] = (box[1] === " " ? "☐ " : "☑ ") + box[2];
  const nodes = markdown(body.join("\n"), depth + 1);
  return h("li", null, nodes.length === 1 && nodes[0].tagName === "P" ? [...nodes[0].childNodes] : nodes);
}

function table(lines, i) {
  const cells = (s) => s.trim().replace(/^\||\|$/g, "").split("|").map((c) => c.trim());
  const row = (tag, s) => h("tr", null, cells(s).map((c) => h(tag, null, inline(c))));
  const head = h("thead", null, row("th", lines[i]));
  const body = h("tbody");
  for (i += 2; i < lines.length && lines[i].includes("|"); i++) body.append(row("td", lines[i]));
  return [h("div", { class: "wide", tabindex: 0 }, h("table", null, head, body)), i];
}

function paragraph(lines, i, depth) {
  const body = [lines[i].trim()];
  for (i++; i < lines.length && lines[i].trim(); i++) {
    const s = lines[i];
    if (fence.test(s) || /^ {0,3}(#{1,6}\s|>)/.test(s) || rule.test(s) || (depth < maxDepth && bullet.test(s))) break;
    body.push(s.trim());
  }
  return [h("p", { dir: "auto" }, inline(body.join("\n"))), i];
}

// The pieces of a line that mean something, tried from left to right. Each repeats a
// negated class only, so no text makes them slow.
const pieces = /(`{1,3})([^`]+)\1|\*\*([^*]+)\*\*|__([^_]+)__|\*([^*\s][^*]*)\*|(?<![\w])_([^_\s][^_]*)_(?![\w])|~~([^~]+)~~|!?\[([^\]]*)\]\(([^()\s]+)(?: "[^"]*")?\)|<?(https?:\/\/[^\s<>()[\]"'`]+)>?|\\([!-/:-@[-`{-~])/g;

export function inline(text, depth = 0) {
  const out = [];
  let at = 0;
  for (const m of text.matchAll(pieces)) {
    if (m.index > at) out.push(...broken(text.slice(at, m.index)));
    out.push(piece(m, depth));
    at = m.index + m[0].length;
  }
  out.push(...broken(text.slice(at)));
  return out;
}

function piece(m, depth) {
  const inner = (s) => (depth < 4 ? inline(s, depth + 1) : [s]);
  if (m[2] !== undefined) return h("code", { dir: "ltr" }, m[2]);
  if (m[3] ?? m[4]) return h("strong", null, inner(m[3] ?? m[4]));
  if (m[5] ?? m[6]) return h("em", null, inner(m[5] ?? m[6]));
  if (m[7]) return h("del", null, inner(m[7]));
  if (m[9]) return link(m[9], m[8] || m[9], m[0]);
  if (m[10]) return bare(m[10]);
  return m[11];
}

// bare links an address in the text, without the full stop behind it.
function bare(address) {
  const [, url, rest] = /^(.*?)([.,;:!?]*)$/.exec(address);
  const span = h("span", null, link(url, url, url), rest);
  return span;
}

// link goes to the web or to a mail program, and nowhere else: javascript:, data: and
// whatever comes next stay text. The title tells where it really goes.
function link(address, text, source) {
  let url;
  try { url = new URL(address); } catch { return source; }
  if (!["http:", "https:", "mailto:"].includes(url.protocol)) return source;
  return h("a", { href: url.href, target: "_blank", rel: "noopener noreferrer nofollow", title: url.href }, text);
}

function broken(text) {
  return text.split("\n").flatMap((s, i) => (i ? [h("br"), s] : [s]));
}
