// A stand-in for `eadem serve`, for what a real server cannot be asked to do at will: errors, load, another answer.
// Its answers are a function of the request, like those of the real one; its logprobs are float32.
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";

export const DIST = fileURLToPath(new URL("../../../web/dist/", import.meta.url));
export const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const TYPES = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
  txt: "text/plain; charset=utf-8",
};
const FINGERPRINT = createHash("sha256").update("stub").digest("hex");
const WORDS = [
  "The",
  " Rhine",
  " flows",
  " into",
  " the",
  " North",
  " Sea",
  ",",
  " the",
  " Dan",
  "ube",
  " into",
  " the",
  " Black",
  " Sea",
  ",\n",
  "and",
  " the",
  " Rh",
  "ône",
  " into",
  " the",
  " Mediter",
  "ranean",
  ".",
];

const hash = (...parts) => createHash("sha256").update(JSON.stringify(parts)).digest();

/** Token `at` of the answer to a request: its text, and five candidates with their logprobs. */
function draw(prompt, seed, at, asked) {
  const word = WORDS[at % WORDS.length];
  const bytes = hash(prompt, seed, at);
  const chosen = -5 * (bytes.readUInt32LE(0) / 2 ** 32) ** 4;
  const rest = 1 - Math.exp(chosen);
  const top = [{ token: word, logprob: Math.fround(chosen) }];
  for (let other = 1; other < asked; ++other) {
    const share = (rest * 0.6 ** other * (1 + bytes[other] / 512)) / 2;
    top.push({
      token: WORDS[(at + bytes[other] + other) % WORDS.length] + "·".repeat(other),
      logprob: Math.fround(Math.log(share + 1e-6)),
    });
  }
  const logprob = top[0].logprob;
  top.sort((a, b) => b.logprob - a.logprob);
  return { id: bytes.readUInt16LE(8), word, logprob, top };
}

const sleep = (time) => new Promise((resolve) => setTimeout(resolve, time));

const bytesOf = (text) => [...Buffer.from(text)];

function chatChoice(token) {
  const top_logprobs = token.top.map((other) => ({ ...other, bytes: bytesOf(other.token) }));
  return {
    delta: { content: token.word },
    logprobs: { content: [{ token: token.word, logprob: token.logprob, bytes: bytesOf(token.word), top_logprobs }] },
  };
}

function textChoice(token) {
  return {
    text: token.word,
    logprobs: {
      tokens: [token.word],
      token_logprobs: [token.logprob],
      top_logprobs: [Object.fromEntries(token.top.map((other) => [other.token, other.logprob]))],
      text_offset: [0],
    },
  };
}

class Stub {
  constructor() {
    this.requests = []; // bodies, in order
    this.headers = []; // of those requests
    this.asked = new Map(); // prompts by their hash
    this.cancelled = 0; // answers whose client went
    this.listed = 0; // replies that name the models
    this.refuse = null; // (path) -> { status, message, retryAfter } or null
    this.key = ""; // where set, the API asks for it
    this.pace = 0; // ms between tokens
    this.hold = Infinity; // the token that answers do not send until this is raised
    this.born = Date.now() / 1000;
    this.started = this.born - 93784;
    this.haste = 1; // how much faster than ours its clock runs
    this.state = "ready";
    this.streams = 0;
    this.generated = 1_204_311;
  }

  async listen() {
    this.server = createServer((request, response) =>
      this.handle(request, response).catch((error) => {
        response.destroy(error);
      }),
    );
    await new Promise((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    this.origin = `http://127.0.0.1:${this.server.address().port}`;
    return this;
  }

  close() {
    this.server.closeAllConnections();
    return new Promise((resolve) => this.server.close(resolve));
  }

  async handle(request, response) {
    const path = new URL(request.url, "http://stub").pathname;
    let body = "";
    for await (const piece of request) body += piece;
    if (request.method === "GET" && !path.startsWith("/v1/")) return this.file(path, response);
    const refusal = this.refuse?.(path);
    if (refusal) return this.error(response, refusal);
    if (this.key && request.headers.authorization !== `Bearer ${this.key}`) {
      return this.error(response, { status: 401, message: "no API key was given, or it is not one of the server's" });
    }
    if (path === "/v1/stats") return this.json(response, 200, this.stats());
    if (path === "/v1/models") {
      this.json(response, 200, { object: "list", data: [{ id: "smollm2-135m", object: "model" }] });
      this.listed += 1;
      return;
    }
    if (path === "/v1/chat/completions" || path === "/v1/completions") {
      this.requests.push(JSON.parse(body));
      this.headers.push(request.headers);
      return this.answer(path, JSON.parse(body), response);
    }
    if (path === "/v1/verify") return this.json(response, 200, this.verify(JSON.parse(body)));
    return this.error(response, { status: 404, message: `there is nothing at ${path}` });
  }

  /** Computes the tokens again, as POST /v1/verify does. */
  verify({ eadem, token_ids, logprobs }) {
    const prompt = this.asked.get(eadem.prompt_hash);
    const again = token_ids.map((_, at) => draw(prompt, eadem.seed, at, 0));
    const index = again.findIndex(({ id, logprob }, at) => id !== token_ids[at] || logprob !== logprobs[at]);
    const difference = { index, what: "logprob", given: logprobs[index], computed: again[index]?.logprob };
    return {
      equal: index < 0,
      compared: { tokens: token_ids.length, logprobs: logprobs.length },
      first_difference: index < 0 ? null : difference,
      fingerprint: FINGERPRINT,
    };
  }

  async file(path, response) {
    const name = path === "/" ? "index.html" : path.slice(1);
    let bytes;
    try {
      bytes = await readFile(DIST + name);
    } catch {
      return this.error(response, { status: 404, message: `there is nothing at ${path}` });
    }
    response.writeHead(200, {
      "Content-Type": TYPES[name.split(".").pop()],
      "Content-Security-Policy": POLICY,
      "X-Content-Type-Options": "nosniff",
    });
    response.end(bytes);
  }

  json(response, status, value, headers = {}) {
    response.writeHead(status, { "Content-Type": "application/json", ...headers });
    response.end(JSON.stringify(value));
  }

  error(response, { status, message, retryAfter }) {
    const headers = retryAfter ? { "Retry-After": retryAfter } : {};
    this.json(
      response,
      status,
      { error: { message, type: "invalid_request_error", param: null, code: null } },
      headers,
    );
  }

  async answer(path, body, response) {
    const chat = path.endsWith("chat/completions");
    const prompt = chat ? body.messages : body.prompt;
    const seed = body.seed ?? hash(prompt, this.requests.length).readUInt32LE(0);
    const asked = (chat ? body.top_logprobs : body.logprobs) ?? 0;
    const length = Math.min(body.max_tokens, WORDS.length);
    let gone = false;
    response.on("close", () => {
      gone = !response.writableEnded;
    });
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    const send = (event) =>
      response.write(
        `data: ${JSON.stringify({
          id: "stub-1",
          object: chat ? "chat.completion.chunk" : "text_completion",
          created: 1,
          model: "smollm2-135m",
          system_fingerprint: FINGERPRINT,
          ...event,
        })}\n\n`,
      );
    const prompt_hash = hash(prompt).toString("hex");
    this.asked.set(prompt_hash, prompt);
    const eadem = {
      seed,
      numerics: "int8-v1",
      prompt_hash,
      fingerprint: FINGERPRINT,
      sampling: { max_tokens: length },
    };
    const begin = chat ? { delta: { role: "assistant", content: "" } } : { text: "" };
    send({ eadem, choices: [{ index: 0, ...begin, logprobs: null, prompt_token_ids: [1, 2], finish_reason: null }] });
    this.streams += 1;
    for (let at = 0; at < length; ++at) {
      while (at >= this.hold && !gone) await sleep(5);
      if (gone) break;
      const token = draw(prompt, seed, at, asked);
      const choice = chat ? chatChoice(token) : textChoice(token);
      send({ choices: [{ index: 0, ...choice, token_ids: [token.id], finish_reason: null }] });
      this.generated += 1;
      if (this.pace) await sleep(this.pace);
    }
    this.streams -= 1;
    if (gone) {
      this.cancelled += 1;
      return;
    }
    send({
      choices: [
        {
          index: 0,
          ...(chat ? { delta: {} } : { text: "" }),
          logprobs: null,
          finish_reason: length < body.max_tokens ? "stop" : "length",
        },
      ],
    });
    send({ choices: [], usage: { prompt_tokens: 31, completion_tokens: length, total_tokens: 31 + length }, eadem });
    response.end("data: [DONE]\n\n");
  }

  /** A server under a load that rises and falls, so that the charts have something to show. */
  stats() {
    const time = this.born + (Date.now() / 1000 - this.born) * this.haste;
    const up = time - this.started;
    const wave = (period, shift = 0) => (1 + Math.sin((2 * Math.PI * (up + shift)) / period)) / 2;
    const running = Math.round(6 + 22 * wave(97) + 4 * wave(13));
    const count = (share, more = 0) => Math.round(up * share + more);
    const le = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
    const histogram = (shares, rate) => {
      const counts = [...le, 0].map((_, at) => Math.round((shares[at] ?? 0) * rate * (up + 20 * wave(61, at * 9))));
      return { le, counts, sum: up, count: counts.reduce((sum, one) => sum + one, 0) };
    };
    return {
      time,
      uptime: up,
      version: "0.2.0",
      state: this.state,
      model: "smollm2-135m",
      numerics: "int8-v1",
      isa: "avx512",
      threads: 16,
      fingerprint: FINGERPRINT,
      max_model_len: 8192,
      max_num_seqs: 32,
      running: running + this.streams,
      waiting: Math.max(0, Math.round(30 * wave(97) - 18)),
      kv_blocks: 2048,
      kv_blocks_used: Math.round(300 + running * 42),
      prompt_tokens: count(210, 900 * wave(41)),
      cached_tokens: count(88, 300 * wave(53)),
      generation_tokens: count(610, 2600 * wave(97, 20)) + this.generated,
      requests: count(2.2),
      answers: { stop: count(1.7), length: count(0.4), cancelled: 311, error: 0, timeout: 4 },
      refused: { invalid: 57, queue_full: 1203, draining: 0 },
      engine: {
        steps: count(31),
        rows: count(820),
        mixed_steps: count(29),
        chunked_prompts: 4100,
        prefix_hit_tokens: count(88),
        prefix_hits: count(1.1),
        prefix_evictions: 902,
        preemptions: 37,
        recomputed_tokens: 18_230,
        drafted_tokens: count(300, 900 * wave(60)),
        accepted_tokens: count(180, 300 * wave(60, 7)),
        finished: count(2.1),
        failed: 0,
        cancelled: 311,
        max_rows: 512,
        max_sequences: 32,
        kernel_calls: count(9000),
      },
      histograms: {
        time_to_first_token: histogram([0, 0, 0, 0.02, 0.1, 0.4, 0.3, 0.12, 0.05, 0.01], 22),
        inter_token: histogram([0, 0, 0.02, 0.2, 0.5, 0.22, 0.05, 0.01], 610),
        request: histogram([0, 0, 0, 0, 0, 0, 0.1, 0.3, 0.3, 0.2, 0.1], 2.2),
      },
      http: {
        connections: 44 + this.streams,
        accepted: count(1.3),
        refused: 0,
        status: { 200: count(2.2), 400: 57, 429: 1203 },
      },
      log: { dropped: 0 },
    };
  }
}

export const startStub = () => new Stub().listen();

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const stub = await startStub();
  stub.pace = 30;
  console.log(stub.origin);
}
