// The page itself: signing in, finding the view that the address names, the keyboard.

import { events, get, post, remove } from "./api.js";
import { h, notice } from "./dom.js";
import { newRun } from "./form.js";
import { Agents, Runs, threads } from "./lists.js";
import { connect, disconnect, refresh, store } from "./store.js";
import { Thread } from "./thread.js";

const $ = (id) => document.getElementById(id);
const main = $("main"), side = $("side"), filter = $("filter"), list = $("threads");
let view = null, chosen = "";

// signIn trades the token of the link for a cookie and takes it out of the address
// before anything else happens, so that it is in no history and no screenshot.
async function signIn() {
  const token = /^#token=([\w-]+)$/.exec(location.hash)?.[1];
  if (token) {
    history.replaceState(null, "", location.pathname + location.search);
    try { await post("api/session", { token }); } catch (e) { notice(e.message); }
  }
  try {
    await get("api/session");
  } catch (e) {
    if (e.status === 401) signedOut();
    else setTimeout(signIn, 2000); // the service is away: it comes back
    return;
  }
  side.hidden = false;
  connect(online);
  await refresh();
  route();
}

function signedOut() {
  disconnect();
  view?.close?.();
  view = null;
  side.hidden = true;
  $("connection").hidden = true;
  document.body.className = "";
  main.replaceChildren(h("section", { class: "panel welcome" }, h("h1", null, "Threadmill"),
    h("p", null, "This browser is not signed in."),
    h("p", null, "Run ", h("code", null, "threadmill link"), " where the service runs and open the address that it prints. The service prints one as well when it starts. Each works once.")));
}

function online(yes) {
  const el = $("connection");
  el.textContent = yes ? "" : "Reconnecting…";
  el.hidden = yes;
}

// route shows what the address names.
function route() {
  if (/^#token=/.test(location.hash)) { signIn(); return; }
  if (side.hidden || !store.ready) return;
  const [, name = "", arg = ""] = location.hash.split("/");
  view?.close?.();
  view = null;
  chosen = name === "t" ? decodeURIComponent(arg) : "";
  document.body.className = name ? "opened" : "";
  const views = { t: () => new Thread(chosen), runs: () => new Runs(arg), agents: () => new Agents(), new: () => ({ element: newRun(started, decodeURIComponent(arg)) }) };
  view = views[name]?.() ?? null;
  main.replaceChildren(view?.element ?? home());
  draw();
}

function home() {
  return h("section", { class: "panel welcome" }, h("h1", null, "Threadmill"), h("p", null, "Choose a thread, or start a ", h("a", { href: "#/new" }, "new run"), "."),
    h("p", { class: "keys" }, ["j k", " threads  ", "n", " new run  ", "/", " filter  ", "Enter", " send  ", "Shift Enter", " new line"].map((t, i) => (i % 2 ? t : h("kbd", null, t)))));
}

function started(x) {
  location.hash = "#/t/" + x.taskId;
  refresh();
}

function draw() {
  threads(list, chosen, filter.value);
  const asks = store.approvals.length;
  document.title = (asks ? `(${asks}) ` : "") + "Threadmill";
}

// step goes to the next thread or the one before.
function step(by) {
  const links = [...list.querySelectorAll("a")];
  const at = links.findIndex((a) => a.getAttribute("aria-current"));
  const next = links[at < 0 ? 0 : Math.min(links.length - 1, Math.max(0, at + by))];
  next?.click();
  next?.scrollIntoView({ block: "nearest" });
}

const keys = { j: () => step(1), k: () => step(-1), n: () => { location.hash = "#/new"; }, "/": () => filter.focus() };

function key(e) {
  const typing = e.target.closest("input, textarea, select");
  if (e.key === "Escape") {
    if (typing === filter) { filter.value = ""; draw(); }
    if (typing) typing.blur();
    else if (document.body.className && !e.target.closest("button, a")) location.hash = "#/";
    else e.target.blur();
    return;
  }
  if (typing || e.ctrlKey || e.metaKey || e.altKey || side.hidden || !keys[e.key]) return;
  e.preventDefault();
  keys[e.key]();
}

store.addEventListener("change", () => { draw(); view?.update?.(); });
events.addEventListener("signedout", signedOut);
addEventListener("hashchange", route);
addEventListener("keydown", key);
filter.addEventListener("input", draw);
filter.addEventListener("keydown", (e) => { if (e.key === "Enter") list.querySelector("a")?.click(); });
$("signout").addEventListener("click", async () => {
  try {
    await remove("api/session");
    signedOut();
  } catch (e) { notice(e.message); }
});
signIn();
