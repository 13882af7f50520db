// The HTTP API: calls, and streams that come back by themselves.

export class Failure extends Error {
  constructor(status, body) {
    super(body.error ?? `the service answered ${status}`);
    this.status = status;
    this.code = body.code ?? "";
  }
}

export const events = new EventTarget(); // "signedout", "online", "offline"

async function request(method, path, body) {
  const init = { method, credentials: "same-origin", headers: {} };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers["Content-Type"] = "application/json";
  }
  let answer;
  try {
    answer = await fetch(path, init);
  } catch {
    throw new Failure(0, { error: "The service does not answer. What you wrote is still here: try again in a moment." });
  }
  if (answer.status === 204) return {};
  const json = await answer.json().catch(() => ({}));
  if (answer.ok) return json;
  if (answer.status === 401 && path !== "api/session") events.dispatchEvent(new Event("signedout"));
  throw new Failure(answer.status, json);
}

export const get = async (path) => (await request("GET", path)).data;
export const page = (path) => request("GET", path);
export const post = async (path, body) => (await request("POST", path, body ?? {})).data;
export const remove = (path) => request("DELETE", path);

const awayAfter = 30_000; // a tab that nobody looks at gives its connections back: browsers have few

// stream opens a stream of events and keeps it open. url is called for each new
// connection, so that it goes on where it was; between those the browser reconnects by
// itself and sends Last-Event-ID. The returned function ends it.
export function stream(url, handlers, { opened, lost } = {}) {
  let source, timer, over = false, wait = 500;
  const open = () => {
    clearTimeout(timer);
    if (over || source) return;
    source = new EventSource(url());
    source.onopen = () => { wait = 500; opened?.(); };
    source.onerror = () => {
      lost?.();
      if (source?.readyState !== EventSource.CLOSED) return;
      source = null; // it was refused: the browser gives up, we do not
      timer = setTimeout(open, wait);
      wait = Math.min(2 * wait, 10_000);
    };
    for (const [name, handle] of Object.entries(handlers)) {
      source.addEventListener(name, (e) => handle(JSON.parse(e.data), Number(e.lastEventId) || 0));
    }
  };
  const shut = () => { clearTimeout(timer); source?.close(); source = null; };
  const look = () => {
    if (document.hidden) { clearTimeout(timer); timer = setTimeout(shut, awayAfter); } else open();
  };
  document.addEventListener("visibilitychange", look);
  open();
  return () => { over = true; shut(); document.removeEventListener("visibilitychange", look); };
}
