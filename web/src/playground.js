// Ask, watch the answer come, look into its tokens, and have it again: the same bits.
import { useEffect, useRef, useState } from "preact/hooks";
import { addEvent, claim, compare, emptyAnswer, promptHash, requestBody, seedOf } from "./answer.js";
import { call, events, explain } from "./api.js";
import { CopyButton } from "./copy.js";
import { check, Form, START } from "./form.js";
import { NONE, number, seconds } from "./format.js";
import { html } from "./html.js";
import { Digest, Problem } from "./overview.js";
import { checked, Proof, verdict, Verified } from "./proof.js";
import { Inspector, Legend, Tokens } from "./tokens.js";

const pathOf = (body) => (body.messages ? "/v1/chat/completions" : "/v1/completions");

/** Sends `body` and reports the answer as it grows, at most once a frame. Resolves with the whole answer. */
async function stream(body, signal, report) {
  const answer = { ...emptyAnswer(), body, sent: performance.now(), first: null, ended: null };
  let frame = 0;
  const show = () => {
    if (frame) return;
    frame = requestAnimationFrame(() => {
      frame = 0;
      report({ ...answer });
    });
  };
  try {
    const response = await call(pathOf(body), { body, signal });
    for await (const event of events(response, signal)) {
      addEvent(answer, event);
      if (answer.first === null && (answer.tokens.length > 0 || answer.text !== "")) answer.first = performance.now();
      show();
    }
  } catch (error) {
    if (error.name !== "AbortError") answer.problem = explain(error);
    else answer.cancelled = true;
  } finally {
    cancelAnimationFrame(frame);
    answer.ended = performance.now();
  }
  return answer;
}

/** Names of the models, once the server tells them; again when the key changes. */
function useModels(ready, key) {
  const [models, setModels] = useState([]);
  useEffect(() => {
    if (!ready) return;
    call("/v1/models")
      .then((response) => response.json())
      .then((list) => setModels(list.data.map(({ id }) => id)))
      .catch(() => setModels([]));
  }, [ready, key]);
  return models;
}

/** One conversation with the server at a time: the answer, its replay, and whether one is under way. */
function useExchange() {
  const [answer, setAnswer] = useState(null);
  const [replay, setReplay] = useState(null);
  const [verified, setVerified] = useState(null);
  const [busy, setBusy] = useState("");
  const abort = useRef(null);

  const run = async (kind, body, report) => {
    abort.current = new AbortController();
    setBusy(kind);
    report({ ...emptyAnswer(), body });
    const done = await stream(body, abort.current.signal, report);
    report(done);
    setBusy("");
    return done;
  };
  return {
    answer,
    replay,
    verified,
    busy,
    cancel: () => abort.current?.abort(),
    send: (body) => {
      setReplay(null);
      setVerified(null);
      return run("send", body, setAnswer);
    },
    verify: async () => {
      abort.current = new AbortController();
      setBusy("verify");
      setVerified(null);
      try {
        const response = await call("/v1/verify", { body: claim(answer), signal: abort.current.signal });
        setVerified(await response.json());
      } catch (error) {
        setVerified(error.name === "AbortError" ? null : { problem: explain(error) });
      }
      setBusy("");
    },
    again: async () => {
      setVerified(null);
      const seed = answer.body.seed ?? seedOf(answer);
      const two = await run("replay", { ...answer.body, seed }, setReplay);
      if (two.cancelled || two.problem) return two;
      const prefix = Boolean(answer.cancelled);
      const done = { ...two, prefix, result: compare(answer, two, prefix) };
      setReplay(done);
      return done;
    },
  };
}

const FINISH = {
  stop: "stop: it ended by itself",
  length: "length: the limit of tokens",
  tool_calls: "tool call",
  content_filter: "filtered",
};

function Facts({ answer }) {
  const time = answer.first === null ? null : (answer.first - answer.sent) / 1000;
  const between =
    answer.ended && answer.first && answer.tokens.length > 1
      ? (answer.ended - answer.first) / 1000 / (answer.tokens.length - 1)
      : null;
  const finish = answer.cancelled ? "cancelled here" : (FINISH[answer.finish] ?? answer.finish ?? NONE);
  const cached = answer.usage?.prompt_tokens_details?.cached_tokens;
  const prompt = answer.usage
    ? `${number(answer.usage.prompt_tokens)}${cached ? ` (${number(cached)} from cache)` : ""}`
    : NONE;
  const facts = [
    ["Tokens", number(answer.tokens.length)],
    ["Prompt tokens", prompt],
    ["First token", seconds(time)],
    ["Between tokens", seconds(between)],
    ["Ended by", finish],
    ["Seed", seedOf(answer) === null ? NONE : String(seedOf(answer))],
    ["Numerics", answer.eadem?.numerics ?? NONE],
  ];
  return html`
    <dl class="facts answer-facts">
      ${facts.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}
    </dl>
    <dl class="facts identity">
      ${[
        ["Prompt hash", promptHash(answer), "the prompt’s hash"],
        ["Fingerprint", answer.fingerprint, "the fingerprint"],
      ]
        .filter(([, value]) => value)
        .map(
          ([name, value, what]) => html`
          <div key=${name}>
            <dt>${name}</dt>
            <dd><${Digest} value=${value} /> <${CopyButton} text=${value} what=${what} /></dd>
          </div>`,
        )}
    </dl>`;
}

function SentRequest({ body }) {
  const text = JSON.stringify(body, null, 2);
  const data = text.replaceAll("'", "'\\''");
  const command = `curl ${location.origin}${pathOf(body)} -H 'Content-Type: application/json' -d '${data}'`;
  return html`
    <details class="sent">
      <summary>The request as it was sent</summary>
      <div class="sent-copy"><${CopyButton} text=${command} what="it as a curl command" /></div>
      <pre tabindex="0" aria-label="JSON of the request">${text}</pre>
    </details>`;
}

function Answer({ exchange, view, onView, active, onActive }) {
  const { answer, replay, busy } = exchange;
  if (!answer) {
    return html`
      <section class="panel answer" aria-labelledby="answer">
        <h2 id="answer">Answer</h2>
        <p class="note">Nothing was asked yet. Each token of the answer will show how sure the model was of it.</p>
      </section>`;
  }
  const seed = answer.body.seed ?? seedOf(answer);
  const canReplay = !busy && answer.tokens.length > 0 && seed !== null && seed !== undefined;
  const result = replay?.result;
  const tokens = view === "tokens" && answer.tokens.length > 0;
  return html`
    <section class="panel answer" aria-labelledby="answer" aria-busy=${busy === "send"}>
      <div class="row">
        <h2 id="answer">Answer</h2>
        <fieldset class="segments">
          <legend class="sr">Show the answer as</legend>
          ${[
            ["tokens", "Tokens"],
            ["text", "Plain text"],
          ].map(
            ([id, label]) => html`
            <label key=${id}>
              <input type="radio" name="view" checked=${view === id} onChange=${() => onView(id)} />
              <span>${label}</span>
            </label>`,
          )}
        </fieldset>
      </div>
      ${answer.problem && html`<${Problem} problem=${answer.problem} />`}
      ${
        answer.reasoning &&
        html`
        <details class="thoughts"><summary>Thoughts</summary><p>${answer.reasoning}</p></details>`
      }
      <div class="body">
        <div>
          ${
            tokens
              ? html`<${Tokens} tokens=${answer.tokens} active=${active} differsAt=${result?.first?.at}
                  onActive=${onActive} />`
              : html`<p class="text">${answer.text || (busy === "send" ? "…" : "")}</p>`
          }
          ${tokens && html`<${Legend} />`}
        </div>
        ${tokens && html`<${Inspector} token=${answer.tokens[active]} at=${active} />`}
      </div>
      ${busy !== "send" && answer.tokens.length > 0 && html`<${Facts} answer=${answer} />`}
      ${
        busy !== "send" &&
        answer.tokens.length > 0 &&
        html`
        <section class="replay" aria-labelledby="replay">
          <h3 id="replay">Replay</h3>
          <div class="actions">
            <button class="primary" aria-disabled=${!canReplay} onClick=${() => canReplay && exchange.again()}>
              Replay with this seed
            </button>
            <button aria-disabled=${Boolean(busy) || !claim(answer)}
              onClick=${() => !busy && claim(answer) && exchange.verify()}>
              Verify on the server
            </button>
            <button disabled=${busy !== "replay" && busy !== "verify"} onClick=${exchange.cancel}>Cancel replay</button>
            <span class="note">
              ${
                busy === "replay"
                  ? `${replay.tokens.length} tokens so far …`
                  : "Sends the very request again, or its tokens and logprobs to be computed again; compares every bit."
              }
            </span>
          </div>
          ${exchange.verified && html`<${Verified} verified=${exchange.verified} />`}
          ${replay?.problem && html`<${Problem} problem=${replay.problem} />`}
          ${replay?.cancelled && html`<p class="note">The replay was cancelled.</p>`}
          ${result && html`<${Proof} result=${result} prefix=${replay.prefix} />`}
        </section>`
      }
      ${busy !== "send" && html`<${SentRequest} body=${answer.body} />`}
    </section>`;
}

/** What a screen reader is told: beginnings and ends, not every token. */
function announcement({ answer, replay, verified, busy }) {
  if (busy === "send") return "The answer is coming.";
  if (busy === "replay") return "The replay is under way.";
  if (busy === "verify") return "The server checks the answer.";
  if (verified && !verified.problem) return checked(verified);
  if (replay?.result) return verdict(replay.result);
  if (!answer || answer.problem) return "";
  const end = answer.cancelled ? "Cancelled" : "The answer is complete";
  return `${end}: ${answer.tokens.length} tokens. ${answer.text.slice(0, 300)}`;
}

export function Playground({ now, authorized }) {
  const [form, setForm] = useState(START);
  const [errors, setErrors] = useState({});
  const [view, setView] = useState("tokens");
  const [active, setActive] = useState(null);
  const exchange = useExchange();
  const models = useModels(now?.state === "ready", authorized);

  const send = () => {
    const { values, errors: found } = check(form);
    setErrors(found);
    const wrong = Object.keys(found)[0];
    if (wrong) {
      requestAnimationFrame(() => document.getElementById(`f-${wrong}`)?.focus());
      return;
    }
    setActive(null);
    exchange.send(requestBody({ ...values, model: values.model || models[0] }));
  };
  return html`
    <h1 class="sr">Playground</h1>
    <p class="sr" role="status">${announcement(exchange)}</p>
    <div class="play">
      <${Form} form=${form} errors=${errors} models=${models} busy=${exchange.busy !== ""} onChange=${setForm}
        onSend=${send} onCancel=${exchange.cancel} />
      <${Answer} exchange=${exchange} view=${view} onView=${setView} active=${active} onActive=${setActive} />
    </div>`;
}
