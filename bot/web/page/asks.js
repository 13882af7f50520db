// What an agent waits for: permissions and questions, with the buttons that answer.

import { post } from "./api.js";
import { h, line, notice } from "./dom.js";
import { body, limited, pretty } from "./entries.js";
import { codeBlock } from "./markdown.js";

// ask makes the element of an approval or a question. approval is the service's own
// row, or nothing as long as it has not read what the agent wrote.
export function ask(e, approval) {
  const a = e.ask ?? {};
  const state = a.state !== "open" ? a.state : approval?.state ?? "open";
  const decision = a.decision ?? approval?.decision;
  const question = e.kind === "question";
  const box = h("section", { class: `entry ask ${question ? "question" : "approval"} ${state}`, "aria-label": question ? "A question" : "A permission" });
  const risk = approval?.risk;
  box.append(h("p", { class: "title" }, question ? "The agent asks" : `The agent wants to use ${line(a.tool, 60) || "a tool"}`,
    risk && state === "open" && h("span", { class: "badge risk " + risk }, risk + " risk")));
  if (e.content && !repeats(e.content, a)) box.append(...body(e.content));
  if (!question && a.input) box.append(codeBlock(limited(pretty(main(a.input)))));
  if (state === "open") box.append(question ? answers(a, approval) : decide(a, approval));
  else box.append(outcome(state, decision, question));
  if (state === "open" && a.deadline) box.append(h("p", { class: "dim" }, "It waits until ", new Date(a.deadline).toLocaleTimeString(), "."));
  return box;
}

// main is what matters of a tool's arguments: a lone command is shown as one.
function main(input) {
  const keys = Object.keys(input ?? {});
  return keys.length === 1 && typeof input[keys[0]] === "string" ? input[keys[0]] : input;
}

// repeats tells whether the words say only what is shown beside them anyway.
const repeats = (content, a) => [...(a.questions ?? []).map((q) => q.text), main(a.input)]
  .some((text) => typeof text === "string" && text.trim() === content.replace(/^`|`$/g, "").trim());

async function send(box, approval, decision) {
  const controls = [...box.querySelectorAll("button, input, textarea")];
  for (const c of controls) c.disabled = true;
  try {
    await post(`api/approvals/${approval.id}`, decision);
  } catch (e) {
    notice(e.message);
    for (const c of controls) c.disabled = false;
  }
}

// How long a decision holds, for the same tool with the same arguments.
const memories = [["only this time"], ["in this run", "run", "forever"], ["in this session", "session", "forever"], ["in this project, for 8 hours", "project", "8h"],
  ["in this project, always", "project", "forever"], ["in all my runs, for 8 hours", "user", "8h"]];

function decide(a, approval) {
  const box = h("div", { class: "decide" });
  const off = !approval;
  const more = h("div", { class: "extra" });
  const remember = h("select", { "aria-label": "Remember it", disabled: off }, memories.map(([label, scope, persist]) => h("option", { value: scope ? JSON.stringify({ scope, persist }) : "" }, label)));
  const kept = () => (remember.value ? JSON.parse(remember.value) : {});
  const button = (label, kind, onclick) => h("button", { type: "button", class: kind, disabled: off, onclick }, label);
  box.append(h("div", { class: "buttons" },
    button("Allow", "primary", () => send(box, approval, { decision: "allow", ...kept() })),
    button("Deny", "danger", () => send(box, approval, { decision: "deny", ...kept() })),
    remember, h("span", { class: "gap" }),
    button("Deny with a reason…", "", () => show(more, reason(box, approval))),
    button("Change…", "", () => show(more, change(box, approval, a.input)))), more);
  return box;
}

function show(place, form) {
  place.replaceChildren(form);
  form.querySelector("textarea, input").focus();
}

function reason(box, approval) {
  const text = h("input", { type: "text", "aria-label": "Why not", placeholder: "Why not; the agent is told" });
  const deny = (interrupt) => send(box, approval, { decision: "deny", denyMessage: text.value, interrupt });
  return h("form", { onsubmit: (e) => { e.preventDefault(); deny(false); } }, text,
    h("div", { class: "buttons" }, h("button", { class: "danger" }, "Deny"),
      h("button", { type: "button", class: "danger", onclick: () => deny(true) }, "Deny and stop the turn")));
}

function change(box, approval, input) {
  const problem = h("p", { class: "problem", role: "alert" });
  const text = h("textarea", { rows: 4, spellcheck: "false", class: "code", "aria-label": "The changed arguments, as JSON", value: JSON.stringify(input ?? {}, null, 2) });
  return h("form", { onsubmit: (e) => {
    e.preventDefault();
    let modifiedInput;
    try { modifiedInput = JSON.parse(text.value); } catch (err) { problem.textContent = "This is not JSON: " + err.message; return; }
    send(box, approval, { decision: "allow", modifiedInput });
  } }, text, problem, h("button", { class: "primary" }, "Allow with these arguments"));
}

// answers is the form of one or more questions. A single question with choices is
// answered by one click.
function answers(a, approval) {
  const box = h("form", { class: "decide" });
  const questions = a.questions ?? [];
  const quick = questions.length === 1 && !questions[0].multiple;
  const fields = questions.map((q, i) => question(q, i, quick && ((text) => send(box, approval, { decision: "allow", answers: { [q.text]: text } }))));
  box.append(...fields.map((f) => f.element));
  if (fields.some((f) => f.typed)) box.append(h("button", { class: "primary" }, "Answer"));
  box.addEventListener("submit", (e) => {
    e.preventDefault();
    const given = Object.fromEntries(questions.map((q, i) => [q.text, fields[i].value()]));
    if (Object.values(given).some((v) => !v)) { notice("Each question needs an answer."); return; }
    send(box, approval, { decision: "allow", answers: given });
  });
  if (!approval) for (const c of box.querySelectorAll("button, input")) c.disabled = true;
  return box;
}

function question(q, i, answer) {
  const choices = q.choices ?? [];
  const free = q.freeText || !choices.length;
  const text = free ? h("input", { type: "text", "aria-label": "Your answer", placeholder: choices.length ? "Or something else" : "Your answer" }) : null;
  const type = q.multiple ? "checkbox" : "radio";
  const inputs = answer ? [] : choices.map((c) => h("input", { type, name: `q${i}`, value: c.label }));
  const options = choices.map((c, n) => {
    const label = [line(c.label, 200), c.description && h("span", { class: "dim" }, " ", line(c.description, 300))];
    return answer ? h("button", { type: "button", onclick: () => answer(c.label) }, label) : h("label", { class: "option" }, inputs[n], label);
  });
  return {
    element: h("fieldset", null, h("legend", null, line(q.text, 2000)), h("div", { class: "buttons" }, options), text),
    typed: !answer || free,
    value: () => [...inputs.filter((el) => el.checked).map((el) => el.value), text?.value.trim()].filter(Boolean).join(", "),
  };
}

// outcome says what became of it. Nobody's silence is called a denial.
function outcome(state, d, question) {
  const by = d?.by ? [" by ", h("b", null, line(d.by, 60))] : [];
  if (state === "timed_out") return h("p", { class: "outcome" }, "Timed out: nobody decided in time.");
  if (state === "withdrawn") return h("p", { class: "outcome" }, "The agent no longer waits for this.");
  if (question && d?.answers) {
    return h("p", { class: "outcome" }, "Answered", by, ": ", h("b", null, Object.values(d.answers).map((v) => line(v, 500)).join("; ")));
  }
  if (d?.allow) return h("p", { class: "outcome allowed" }, "Allowed", by, d.modifiedInput ? ", with changed arguments:" : ".", d.modifiedInput ? codeBlock(limited(pretty(main(d.modifiedInput)))) : "");
  return h("p", { class: "outcome denied" }, "Denied", by, d?.message ? [": ", line(d.message, 1000)] : ".", d?.interrupt ? " The turn was stopped." : "");
}
