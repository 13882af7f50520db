// What the page knows, read again whenever the service says that something changed.
// Views listen for "change".

import { get, page, stream } from "./api.js";
import { notice } from "./dom.js";

export const store = Object.assign(new EventTarget(), {
  tasks: [], more: false, executions: [], approvals: [], agents: [], capabilities: [], ready: false,
});

const pageSize = 100;
const rest = 800; // ms between two reads, however much happens
let pages = 1, running = false, again = false, stop;

export const ended = (x) => ["succeeded", "failed", "timed_out", "cancelled"].includes(x.status);
export const agentOf = (x) => store.agents.find((a) => a.id === x.agentId);
export const capabilityOf = (x) => store.capabilities.find((c) => c.id === x.capabilityId);

// position is an execution's place in the queue of its agent.
export function position(x) {
  const queue = store.executions.filter((q) => q.status === "queued" && q.agentId === x.agentId && q.number < x.number);
  return queue.length + 1;
}

// newest returns the newest execution of each task.
export function newest() {
  const by = new Map();
  for (const x of store.executions) if (!by.has(x.taskId)) by.set(x.taskId, x);
  return by;
}

// waiting returns the tasks in which an agent waits for somebody.
export function waiting() {
  const tasks = new Map(store.executions.map((x) => [x.id, x.taskId]));
  return new Set(store.approvals.map((a) => tasks.get(a.executionId)));
}

// refresh reads everything again. Calls while it does are one more round.
export async function refresh() {
  if (running) { again = true; return; }
  running = true;
  try {
    const lists = [...Array(pages).keys()].map((i) => page(`api/tasks?pageSize=${pageSize}&page=${i + 1}`));
    const [executions, approvals, agents, capabilities, ...tasks] = await Promise.all([
      get("api/executions?pageSize=200"), get("api/approvals"), get("api/agents"), get("api/capabilities"), ...lists]);
    const seen = new Map(tasks.flatMap((p) => p.data).map((t) => [t.id, t])); // a page may have moved on meanwhile
    Object.assign(store, { executions, approvals, agents, capabilities, tasks: [...seen.values()], ready: true });
    store.more = seen.size < (tasks[0].meta?.total ?? 0);
    store.dispatchEvent(new Event("change"));
  } catch (e) {
    if (e.status > 0 && e.status !== 401) notice(e.message);
  }
  setTimeout(() => { running = false; if (again) { again = false; refresh(); } }, rest);
}

export function older() {
  pages++;
  refresh();
}

// connect follows the service; state is called with whether it answers.
export function connect(state) {
  stop?.();
  stop = stream(() => "api/changes", { change: refresh }, { opened: () => state(true), lost: () => state(false) });
}

export function disconnect() {
  stop?.();
  stop = null;
}
