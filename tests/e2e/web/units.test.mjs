// What the page computes, without a browser: events out of bytes, quantiles out of buckets, the comparison of answers.
import assert from "node:assert/strict";
import { test } from "node:test";
import { addEvent, compare, emptyAnswer, requestBody } from "../../../web/src/answer.js";
import { explain, ServerError, splitter } from "../../../web/src/api.js";
import { floatBits, logprob, percent, seconds, duration } from "../../../web/src/format.js";
import { History, KEPT, quantile } from "../../../web/src/stats.js";

test("events are the same however their bytes are cut", () => {
  const stream = 'data: {"a":1}\n\n: a comment\r\ndata: two\r\ndata: lines\r\n\r\nevent: x\ndata:[DONE]\n\n';
  const wanted = ['{"a":1}', "two\nlines", "[DONE]"];
  for (let size = 1; size <= stream.length; ++size) {
    const split = splitter();
    const found = [];
    for (let at = 0; at < stream.length; at += size) found.push(...split(stream.slice(at, at + size)));
    assert.deepEqual(found, wanted, `pieces of ${size}`);
  }
});

test("a stream's last event needs no empty line after it", () => {
  const split = splitter();
  assert.deepEqual([...split("data: x"), ...split("", true)], ["x"]);
});

test("quantiles lie inside their bucket", () => {
  const bounds = [1, 2, 4];
  assert.equal(quantile(bounds, [0, 0, 0, 0], 0.5), null);
  assert.equal(quantile(bounds, [0, 10, 0, 0], 0.5), 1.5);
  assert.equal(quantile(bounds, [10, 0, 0, 10], 0.5), 1);
  assert.equal(quantile(bounds, [0, 0, 0, 5], 0.99), 4);
  assert.equal(quantile(bounds, [1, 1, 2, 0], 1), 4);
});

function reading(time, more = {}) {
  return {
    time,
    uptime: time,
    requests: time,
    running: 1,
    waiting: 0,
    generation_tokens: 100 * time,
    prompt_tokens: 40 * time,
    cached_tokens: 10 * time,
    kv_blocks: 8,
    kv_blocks_used: 2,
    engine: { preemptions: 0, drafted_tokens: 4 * time, accepted_tokens: 3 * time },
    histograms: { inter_token: { le: [1, 2], counts: [time, time, 0] } },
    ...more,
  };
}

test("rates and shares come from two readings", () => {
  const history = new History();
  for (let time = 1; time <= 50; ++time) history.add(reading(time));
  const last = history.points.at(-1);
  assert.equal(last.generated, 100);
  assert.equal(last.prompt, 40);
  assert.equal(last.hits, 0.25);
  assert.equal(last.kv, 0.25);
  assert.equal(last.acceptance, 0.75);
  assert.equal(last.itl50, 1);
  assert.equal(last.ttft50, null);
  assert.equal(history.points[0].generated, null);
});

test("history is bounded, survives a slow poll, and begins anew after a restart", () => {
  const history = new History();
  for (let time = 1; time <= 2 * KEPT; time += 20) history.add(reading(time));
  assert.ok(history.points.length <= 2 * (KEPT / 20 + 1) && history.readings.length < 5);
  assert.equal(history.points.at(-1).generated, 100);
  assert.deepEqual(Object.keys(history.points.at(-2)), ["time"], "a gap breaks the line");
  history.add({ ...reading(3 * KEPT, { uptime: 1, requests: 0, generation_tokens: 5 }) });
  assert.equal(history.points.at(-1).generated, null);
});

function answer(tokens, more = {}) {
  return {
    ...emptyAnswer(),
    tokens,
    text: tokens.map(({ text }) => text).join(""),
    finish: "stop",
    fingerprint: "f",
    ...more,
  };
}

const token = (text, value, top = [{ text, logprob: value }]) => ({ text, logprob: value, top });

test("equal answers are equal", () => {
  const make = () => answer([token("a", -0.5), token("b", null), token("c", -0)], { eadem: { prompt_hash: "p" } });
  const result = compare(make(), make());
  assert.equal(result.equal, true);
  assert.equal(result.first, null);
  assert.equal(result.tokens, 3);
});

test("one bit is a difference, and the first of them is told", () => {
  const base = [token("a", -0.5), token("b", -0.25), token("c", -1)];
  const next = new Float32Array(
    new Uint32Array([new Uint32Array(new Float32Array([-0.25]).buffer)[0] + 1]).buffer,
  )[0];
  const cases = [
    [[base[0], token("b", next, base[1].top), base[2]], 1, "logprob"],
    [[base[0], base[1], token("d", -1)], 2, "token"],
    [[base[0], token("b", -0.25, [{ text: "b", logprob: -0.2500001 }]), base[2]], 1, "alternatives"],
    [base.slice(0, 2), 2, "length"],
    [[...base, token("d", -1)], 3, "length"],
    [[{ ...base[0], id: 7 }, base[1], base[2]], 0, "token"],
    [[token("a", 0), base[1], base[2]], 0, "logprob"],
  ];
  for (const [tokens, at, what] of cases) {
    const result = compare(answer(base), answer(tokens));
    assert.equal(result.equal, false);
    assert.deepEqual([result.first.at, result.first.what], [at, what]);
  }
  assert.equal(compare(answer([token("a", 0)]), answer([token("a", -0)])).equal, false);
});

test("other fields count too, and nothing is never equal", () => {
  const tokens = [token("a", -0.5)];
  for (const more of [{ fingerprint: "g" }, { finish: "length" }, { text: "b" }, { eadem: { prompt_hash: "q" } }]) {
    const result = compare(answer(tokens), answer(tokens, more));
    assert.equal(result.equal, false, JSON.stringify(more));
    assert.equal(result.first, null);
  }
  assert.equal(compare(answer([]), answer([])).equal, false);
});

test("a cancelled answer is compared as far as it goes", () => {
  const tokens = [token("a", -0.5), token("b", -0.25)];
  const cut = answer(tokens.slice(0, 1), { finish: null });
  assert.equal(compare(cut, answer(tokens), true).equal, true);
  assert.equal(compare(cut, answer(tokens), false).equal, false);
  assert.equal(compare(cut, answer([token("x", -0.5), tokens[1]]), true).equal, false);
});

test("both endpoints' events give the same tokens", () => {
  const chat = emptyAnswer();
  addEvent(chat, {
    choices: [
      {
        delta: { content: "1" },
        token_ids: [5],
        logprobs: {
          content: [
            {
              token: "1",
              bytes: [49],
              logprob: -0.5,
              top_logprobs: [
                { token: "1", bytes: [49], logprob: -0.5 },
                { token: "0", bytes: [48], logprob: -1 },
              ],
            },
          ],
        },
      },
    ],
  });
  const text = emptyAnswer();
  addEvent(text, {
    choices: [
      {
        text: "1",
        token_ids: [5],
        logprobs: { tokens: ["1"], token_logprobs: [-0.5], top_logprobs: [{ 0: -1, 1: -0.5 }] },
      },
    ],
  });
  const plain = ({ id, text: of, logprob: value, top }) => [
    id,
    of,
    value,
    top.map((other) => [other.text, other.logprob]),
  ];
  assert.deepEqual(chat.tokens.map(plain), [
    [
      5,
      "1",
      -0.5,
      [
        ["1", -0.5],
        ["0", -1],
      ],
    ],
  ]);
  assert.deepEqual(text.tokens.map(plain), chat.tokens.map(plain));
  addEvent(chat, { choices: [], usage: { prompt_tokens: 3 }, eadem: { seed: 4 } });
  assert.equal(chat.usage.prompt_tokens, 3);
  assert.equal(chat.eadem.seed, 4);
});

test("requests hold what the form says and nothing else", () => {
  const form = {
    chat: true,
    model: "m",
    system: "",
    prompt: "hi",
    temperature: 0,
    topP: 1,
    maxTokens: 3,
    seed: null,
    alternatives: 2,
    schema: null,
  };
  const chat = JSON.parse(JSON.stringify(requestBody(form)));
  assert.deepEqual(chat.messages, [{ role: "user", content: "hi" }]);
  assert.ok(!("seed" in chat) && !("response_format" in chat) && !("prompt" in chat));
  const text = JSON.parse(JSON.stringify(requestBody({ ...form, chat: false, seed: 0, schema: { type: "object" } })));
  assert.deepEqual(
    [text.prompt, text.logprobs, text.seed, text.response_format.json_schema.schema],
    ["hi", 2, 0, { type: "object" }],
  );
});

test("errors are told in words", () => {
  assert.match(explain(new ServerError(429, "full", "3")).advice, /in 3 s/);
  assert.match(explain(new ServerError(503, "x", null)).advice, /moment/);
  assert.match(explain(new ServerError(401, "x")).advice, /API key/);
  assert.match(explain(new ServerError(418, "x")).title, /418/);
  assert.equal(explain(new TypeError("failed")).status, 0);
});

test("numbers keep their bits and their units", () => {
  assert.equal(floatBits(-0.5), "0xbf000000");
  assert.equal(logprob(Math.fround(-0.1)), "−0.1");
  assert.equal(Math.fround(Number(logprob(Math.fround(-1 / 3)).replace("−", "-"))), Math.fround(-1 / 3));
  assert.equal(logprob(null), "masked");
  assert.deepEqual(
    [seconds(0.0123), seconds(0.25), seconds(2.5), seconds(null)],
    ["12.3 ms", "250 ms", "2.50 s", "–"],
  );
  assert.deepEqual([percent(1), percent(0.005), percent(0)], ["100.0 %", "0.50 %", "0.00 %"]);
  assert.equal(duration(93784), "1 d 02:03:04");
});
