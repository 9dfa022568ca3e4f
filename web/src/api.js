// The server's API: requests, its errors in plain words, and server-sent events.

const KEY = "eadem-api-key";

// Kept for this tab alone; where the browser forbids even that, in memory.
let key = null;

export function apiKey() {
  if (key === null) {
    try {
      key = sessionStorage.getItem(KEY) ?? "";
    } catch {
      key = "";
    }
  }
  return key;
}

export function setApiKey(value) {
  key = value;
  try {
    if (value) sessionStorage.setItem(KEY, value);
    else sessionStorage.removeItem(KEY);
  } catch {
    // Storage is off: memory is enough.
  }
}

/** A reply that is not 2xx, or an error event inside a stream. `status` is 0 where no reply came. */
export class ServerError extends Error {
  constructor(status, message, retryAfter) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

const TITLES = {
  0: "No connection to the server",
  400: "The server refuses this request",
  401: "An API key is needed",
  403: "The API key is not allowed to do this",
  404: "The server does not know this model or address",
  408: "The request took too long to arrive",
  413: "The request is too large",
  422: "The server refuses this request",
  429: "The server is full",
  500: "The server failed",
  503: "The server takes no requests now",
};

/** What to tell of an error: a title, the server's own words, what to do. */
export function explain(error) {
  const status = error instanceof ServerError ? error.status : 0;
  const title = TITLES[status] ?? `The server answered ${status}`;
  let advice = "";
  if (status === 0) advice = "Is it running, and can this machine reach it?";
  if (status === 401) advice = "Enter the key under “API key” at the top of the page.";
  if (status === 429) advice = `Its queue is at the limit. ${again(error.retryAfter)}`;
  if (status === 503) advice = `It is starting or shutting down. ${again(error.retryAfter)}`;
  return { status, title, detail: error.message, advice };
}

function again(retryAfter) {
  if (!retryAfter) return "Try again in a moment.";
  return /^\d+$/.test(retryAfter) ? `Try again in ${retryAfter} s.` : `Try again after ${retryAfter}.`;
}

/** fetch with the key; throws ServerError unless the status is 2xx. */
export async function call(path, { body, signal } = {}) {
  const headers = {};
  if (apiKey()) headers.Authorization = `Bearer ${apiKey()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      cache: "no-store",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError(0, error.message);
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

async function refusal(response) {
  const text = await response.text().catch(() => "");
  let message = text.slice(0, 500);
  try {
    const body = JSON.parse(text);
    message = body.error?.message ?? body.message ?? message;
  } catch {
    // Not JSON: a proxy's page, say. Its text is all there is.
  }
  return new ServerError(response.status, message, response.headers.get("Retry-After"));
}

/** The JSON objects of a stream of server-sent events, up to [DONE]. Throws ServerError for an error event. */
export async function* events(response, signal) {
  const reader = response.body.getReader();
  const split = splitter();
  const decoder = new TextDecoder();
  try {
    for (;;) {
      const { done, value } = await read(reader);
      const texts = split(done ? decoder.decode() : decoder.decode(value, { stream: true }), done);
      for (const text of texts) {
        if (text === "[DONE]") return;
        const event = JSON.parse(text);
        if (event.error) throw new ServerError(event.error.code ?? 500, event.error.message ?? text);
        yield event;
      }
      if (done) {
        if (!signal?.aborted) throw new ServerError(0, "The stream ended before the answer did.");
        return;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

async function read(reader) {
  try {
    return await reader.read();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError(0, `The connection broke: ${error.message}`);
  }
}

/** A function that takes pieces of an event stream, cut anywhere, and gives the data of the events they complete. */
export function splitter() {
  let rest = "";
  let data = [];
  return (piece, last = false) => {
    const found = [];
    rest += piece;
    // A \r at the end may be half of a \r\n.
    const whole = rest.split(/\r\n|\n|\r(?!$)/);
    rest = whole.pop();
    if (last && rest !== "") whole.push(rest, "");
    for (const line of whole) {
      if (line === "") {
        if (data.length > 0) found.push(data.join("\n"));
        data = [];
      } else if (line.startsWith("data:")) {
        data.push(line.slice(line[5] === " " ? 6 : 5));
      }
    }
    return found;
  };
}
