// Building blocks: elements, safe text, times. Nothing here ever parses markup: what
// an agent or a person wrote becomes a text node, and nothing else.

// h makes an element. Properties that begin with "on" are listeners, null and false
// leave one out; children are nodes, texts, lists, or nothing.
export function h(tag, props, ...children) {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) el.addEventListener(name.slice(2), value);
    else if (name === "class") el.className = value;
    else if (["value", "checked", "disabled", "hidden", "open", "selected"].includes(name)) el[name] = value;
    else el.setAttribute(name, value === true ? "" : value);
  }
  el.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return el;
}

// Terminal sequences: CSI, OSC and the like, and two-byte escapes.
const escapes = /\u001b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[ -/]*[0-~])|\u009b[0-?]*[ -/]*[@-~]/g;
// Controls, and characters that change the direction or the order of what is read.
const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

// clean makes text harmless to read: terminal sequences go, and what would reorder or
// hide text is shown by its name.
export function clean(text) {
  return String(text ?? "").replace(/\r\n?/g, "\n").replace(escapes, "").replace(hidden, (c) => {
    const code = c.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

// line is text for one line, of bounded length.
export function line(text, limit = 200) {
  const s = clean(String(text ?? "").slice(0, 4 * limit)).replace(/\s+/g, " ").trim();
  return s.length > limit ? s.slice(0, limit - 1) + "…" : s;
}

export function duration(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  const two = (n) => String(n).padStart(2, "0");
  if (s < 3600) return `${Math.floor(s / 60)}:${two(s % 60)}`;
  return `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
}

export function ago(time) {
  const s = (Date.now() - new Date(time)) / 1000;
  if (s < 60) return "now";
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h`;
  if (s < 7 * 86400) return `${Math.floor(s / 86400)} d`;
  return new Date(time).toLocaleDateString();
}

export function when(time, props) {
  return h("time", { datetime: time, title: new Date(time).toLocaleString(), ...props }, ago(time));
}

export function bytes(n) {
  if (n < 1000) return `${n} B`;
  return n < 1e6 ? `${Math.round(n / 1e3)} kB` : `${(n / 1e6).toFixed(1)} MB`;
}

export const count = (n) => (n < 10000 ? String(n) : n < 1e6 ? `${Math.round(n / 1e3)}k` : `${(n / 1e6).toFixed(1)}M`);

export const money = (usd) => "$" + (usd < 1 ? usd.toFixed(usd < 0.01 ? 4 : 2) : usd.toFixed(2));

export const words = (name) => String(name ?? "").replaceAll("_", " ");

// newID names what is sent, so that sending it twice does it once. (randomUUID exists
// on https and localhost only.)
export function newID() {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (b) => b.toString(16).padStart(2, "0")).join("");
}

// back leads to the threads where they are not at the side.
export const back = () => h("a", { class: "back", href: "#/", "aria-label": "All threads" }, "‹");

let hiding;

// notice shows a problem for a while.
export function notice(text) {
  const el = document.getElementById("notice");
  el.textContent = clean(text);
  el.hidden = false;
  clearTimeout(hiding);
  hiding = setTimeout(() => { el.hidden = true; }, 8000);
}
