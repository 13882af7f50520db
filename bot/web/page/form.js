// A new run: choose a capability, fill in what its schema asks for.

import { post } from "./api.js";
import { back, h, line, newID } from "./dom.js";
import { store } from "./store.js";

// newRun makes the form; started is called with the execution.
export function newRun(started, chosen) {
  const select = h("select", { id: "capability", onchange: () => fields() },
    store.capabilities.map((c) => h("option", { value: c.id, selected: c.id === chosen }, line(c.label, 80))));
  const inside = h("div", { class: "fields" });
  const problem = h("p", { class: "problem", role: "alert" });
  const start = h("button", { class: "primary" }, "Start");
  let current = [], key = newID();
  const fields = () => {
    const c = capability();
    current = describe(c);
    inside.replaceChildren(c.description ? h("p", { class: "dim" }, line(c.description, 500)) : "", unavailable(c), ...current.map((f) => f.element));
    problem.textContent = "";
    key = newID();
  };
  const capability = () => store.capabilities.find((c) => c.id === select.value) ?? store.capabilities[0];
  const submit = async (e) => {
    e.preventDefault();
    problem.textContent = "";
    for (const f of current) f.complain("");
    const body = { capability: capability().id, args: {}, idempotencyKey: key };
    for (const f of current) f.put(body);
    start.disabled = true;
    try {
      started(await post("api/executions", body));
    } catch (err) {
      if (err.status > 0) key = newID(); // it was refused, not lost: the next try is another request
      const unplaced = place(err.message, current);
      problem.textContent = unplaced;
      inside.querySelector("[aria-invalid=true]")?.focus();
    }
    start.disabled = false;
  };
  const form = h("form", { class: "form", novalidate: true, onsubmit: submit }, h("label", { for: "capability" }, "What to run"), select, inside, problem, start);
  if (!store.capabilities.length) return h("p", { class: "empty" }, "There is nothing to run: the configuration has no capabilities.");
  fields();
  setTimeout(() => (inside.querySelector("input, textarea, select") ?? select).focus());
  return h("section", { class: "panel" }, h("header", { class: "top" }, back(), h("h1", null, "New run")), form);
}

function unavailable(c) {
  const a = store.agents.find((v) => v.id === c.agentId)?.availability;
  if (!a || a.ok) return "";
  return h("p", { class: "problem" }, line(a.problem, 300), " ", line(a.hint ?? "", 300));
}

// describe makes the fields of a capability: its arguments, and the text of a prompt.
function describe(c) {
  const schema = c.argsSchema ?? {};
  const required = schema.required ?? [];
  const out = Object.entries(schema.properties ?? {}).sort(([a], [b]) => required.includes(b) - required.includes(a)).map(([name, s]) => argument(name, s, required.includes(name)));
  if (c.mode === "prompt") out.push(prompt());
  return out;
}

function prompt() {
  const input = h("textarea", { id: "f-text", rows: 5, dir: "auto", onkeydown: (e) => {
    if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); input.form.requestSubmit(); }
  } });
  return field("text", "Message", "Enter starts, Shift+Enter makes a new line.", input, (body) => { body.text = input.value; });
}

function argument(name, s, required) {
  const id = "f-" + name;
  const set = (value) => (body) => { const v = value(); if (v !== undefined) body.args[name] = v; };
  const start = s.default ?? s.const ?? "";
  const hint = [s.description, s.minimum !== undefined && `at least ${s.minimum}`, s.maximum !== undefined && `at most ${s.maximum}`].filter(Boolean).join(" · ");
  const label = (s.title ?? name) + (required ? "" : " (optional)");
  if (s.type === "boolean") {
    const box = h("input", { id, type: "checkbox", checked: s.default === true });
    return field(name, s.title ?? name, hint, box, set(() => box.checked));
  }
  if (s.enum) {
    const choose = h("select", { id }, !required && h("option", { value: "" }, "—"), s.enum.map((v) => h("option", { value: JSON.stringify(v), selected: v === s.default }, String(v))));
    return field(name, label, hint, choose, set(() => (choose.value ? JSON.parse(choose.value) : undefined)));
  }
  const number = s.type === "integer" || s.type === "number";
  const input = !number && multiline(s) ? h("textarea", { id, rows: 4, dir: "auto" })
    : h("input", { id, type: "text", inputmode: number ? "decimal" : null, placeholder: s.examples?.[0] ?? null, autocomplete: "off", spellcheck: number ? "false" : null });
  input.value = String(start);
  return field(name, label, hint, input, set(() => {
    const text = input.value;
    if (text === "" && !(required && !number)) return undefined;
    return number && text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
  }));
}

const multiline = (s) => s.format === "multiline" || s.contentMediaType === "text/markdown" || s.maxLength > 300;

function field(name, label, hint, input, put) {
  const problem = h("p", { class: "problem", id: input.id + "-problem" });
  input.setAttribute("aria-describedby", problem.id);
  const check = input.type === "checkbox";
  return {
    name, put,
    element: h("div", { class: "field" }, check ? h("label", { class: "option" }, input, line(label, 100)) : [h("label", { for: input.id }, line(label, 100)), input],
      hint && h("p", { class: "dim" }, line(hint, 500)), problem),
    complain: (text) => { problem.textContent = text; input.setAttribute("aria-invalid", String(!!text)); },
  };
}

// place puts each complaint at the field that it names ("lines: must be …") and
// returns what belongs to none.
export function place(message, fields) {
  const names = fields.map((f) => f.name.replace(/[^\w-]/g, "")).filter(Boolean).join("|");
  const rest = [];
  for (const part of message.split("; ")) {
    const m = names && new RegExp(`(?:^|: )(${names}): (.*)$`).exec(part) || (/\btext\b/.test(part) && fields.some((f) => f.name === "text") ? [part, "text", part] : null);
    if (m) fields.find((f) => f.name === m[1]).complain(m[2]);
    else rest.push(part);
  }
  return rest.join("; ");
}
