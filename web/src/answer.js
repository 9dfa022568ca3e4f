// An answer as it streams in, and the comparison of two.

/** The body of a request, from the fields of the form. Undefined fields are left out of its JSON. */
export function requestBody(form) {
  const common = {
    model: form.model || undefined,
    temperature: form.temperature,
    top_p: form.topP,
    max_tokens: form.maxTokens,
    seed: form.seed ?? undefined,
    return_token_ids: true,
    stream: true,
    stream_options: { include_usage: true },
  };
  if (form.schema) {
    common.response_format = {
      type: "json_schema",
      json_schema: { name: "answer", schema: form.schema, strict: true },
    };
  }
  if (form.chat) {
    const system = form.system ? [{ role: "system", content: form.system }] : [];
    const messages = [...system, { role: "user", content: form.prompt }];
    return { ...common, messages, logprobs: true, top_logprobs: form.alternatives };
  }
  return { ...common, prompt: form.prompt, logprobs: form.alternatives };
}

export function emptyAnswer() {
  return {
    promptIds: null,
    text: "",
    reasoning: "",
    tokens: [],
    finish: null,
    fingerprint: null,
    model: null,
    usage: null,
    eadem: null,
  };
}

/** Adds one event of a stream. Tokens are objects that never change, so that each is drawn once. */
export function addEvent(answer, event) {
  if (event.system_fingerprint) answer.fingerprint = event.system_fingerprint;
  if (event.model) answer.model = event.model;
  if (event.usage) answer.usage = event.usage;
  if (event.eadem) answer.eadem = { ...answer.eadem, ...event.eadem };
  const choice = event.choices?.[0];
  if (!choice) return;
  answer.text += choice.delta?.content ?? choice.text ?? "";
  answer.reasoning += choice.delta?.reasoning_content ?? choice.delta?.reasoning ?? "";
  if (choice.finish_reason) answer.finish = choice.finish_reason;
  if (choice.eadem) answer.eadem = { ...answer.eadem, ...choice.eadem };
  answer.promptIds ??= choice.prompt_token_ids ?? null;
  const tokens = tokensOf(choice.logprobs);
  const ids = choice.token_ids;
  answer.tokens.push(
    ...(ids?.length === tokens.length ? tokens.map((token, at) => ({ ...token, id: ids[at] })) : tokens),
  );
}

function tokensOf(logprobs) {
  if (!logprobs) return [];
  if (logprobs.content) return logprobs.content.map(chatToken);
  return (logprobs.tokens ?? []).map((text, at) => ({
    text,
    logprob: logprobs.token_logprobs[at],
    top: Object.entries(logprobs.top_logprobs?.[at] ?? {})
      .map(([other, value]) => ({ text: other, logprob: value }))
      .sort((a, b) => b.logprob - a.logprob),
  }));
}

function chatToken(token) {
  return {
    text: token.token,
    bytes: token.bytes,
    logprob: token.logprob,
    top: (token.top_logprobs ?? []).map((other) => ({
      text: other.token,
      bytes: other.bytes,
      logprob: other.logprob,
    })),
  };
}

const sameNumber = (a, b) => Object.is(a, b);
const sameToken = (a, b) => a.id === b.id && a.text === b.text && String(a.bytes ?? "") === String(b.bytes ?? "");
const sameTop = (a, b) =>
  a.length === b.length && a.every((item, at) => sameToken(item, b[at]) && sameNumber(item.logprob, b[at].logprob));

/**
 * Compares two answers token by token, logprobs by their bits. `prefix`: the first was cut off, and the second is
 * compared as far as it goes. `rows` are what was compared, `first` is the first token that differs.
 */
export function compare(one, two, prefix = false) {
  const length = prefix ? one.tokens.length : Math.max(one.tokens.length, two.tokens.length);
  const equal = { tokens: 0, logprobs: 0, tops: 0 };
  let first = null;
  for (let at = 0; at < length; ++at) {
    const [a, b] = [one.tokens[at], two.tokens[at]];
    const same = a &&
      b && {
        token: sameToken(a, b),
        logprob: sameNumber(a.logprob, b.logprob),
        alternatives: sameTop(a.top, b.top),
      };
    if (same?.token) equal.tokens += 1;
    if (same?.logprob) equal.logprobs += 1;
    if (same?.alternatives) equal.tops += 1;
    const differs = same ? Object.keys(same).find((what) => !same[what]) : "length";
    if (differs && !first) first = { at, what: differs, one: a ?? null, two: b ?? null };
  }
  const rows = [
    { name: "Tokens", equal: equal.tokens, of: length },
    { name: "Logprobs", equal: equal.logprobs, of: length },
    { name: "Alternatives", equal: equal.tops, of: length },
    ...fields(one, two, prefix),
  ];
  return { equal: length > 0 && !first && rows.every((row) => row.equal === row.of), first, rows, tokens: length };
}

function fields(one, two, prefix) {
  const row = (name, same) => ({ name, equal: same ? 1 : 0, of: 1, whole: true });
  const rows = [
    row("Text", prefix ? two.text.startsWith(one.text) : one.text === two.text),
    row("Fingerprint", one.fingerprint === two.fingerprint),
  ];
  if (!prefix) rows.push(row("Ended by", one.finish === two.finish));
  if (promptHash(one) || promptHash(two)) rows.push(row("Prompt hash", promptHash(one) === promptHash(two)));
  return rows;
}

export function promptHash(answer) {
  return answer.eadem?.prompt_hash ?? null;
}

export function seedOf(answer) {
  return answer.eadem?.seed ?? null;
}

/** The body of /v1/verify for an answer that ended by itself; null where the server did not tell enough. */
export function claim(answer) {
  const { eadem, promptIds, tokens, cancelled, problem } = answer;
  const told = eadem && promptIds && tokens.length > 0 && tokens.every(({ id }) => id !== undefined);
  if (!told || cancelled || problem) return null;
  return {
    model: answer.body.model,
    eadem,
    prompt_token_ids: promptIds,
    token_ids: tokens.map(({ id }) => id),
    logprobs: tokens.map(({ logprob }) => logprob),
  };
}
