// usage: client.mjs BASE_URL MODEL: asks through the official client and prints what came back as one JSON object.
import OpenAI from "openai";

const [baseURL, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0, timeout: 300_000 });
const messages = [{ role: "user", content: "Name two colours." }];
const sampled = { model, messages, seed: 9, temperature: 0.8, max_tokens: 24, logprobs: true };
const tool = {
  type: "function",
  function: {
    name: "set_light",
    description: "Turns a light on or off",
    parameters: {
      type: "object",
      properties: { room: { type: "string", maxLength: 16 }, on: { type: "boolean" } },
      required: ["room", "on"],
      additionalProperties: false,
    },
  },
};

async function streamed(body) {
  const out = { text: "", logprobs: [], reasons: [], tools: {}, usage: null };
  const stream = await client.chat.completions.create({
    ...body,
    stream: true,
    stream_options: { include_usage: true },
  });
  for await (const chunk of stream) {
    out.usage = chunk.usage ?? out.usage;
    for (const choice of chunk.choices) {
      out.text += choice.delta.content ?? "";
      out.logprobs.push(...(choice.logprobs?.content ?? []).map((entry) => entry.logprob));
      if (choice.finish_reason) out.reasons.push(choice.finish_reason);
      for (const call of choice.delta.tool_calls ?? []) {
        const state = (out.tools[call.index] ??= { id: "", name: "", arguments: "" });
        state.id += call.id ?? "";
        state.name += call.function?.name ?? "";
        state.arguments += call.function?.arguments ?? "";
      }
    }
  }
  return out;
}

async function refused(ask) {
  try {
    await ask();
    return null;
  } catch (error) {
    return { name: error.constructor.name, status: error.status, message: error.message };
  }
}

const called = {
  model,
  messages: [{ role: "user", content: "Turn on the light in the kitchen." }],
  tools: [tool],
  tool_choice: "required",
  temperature: 0,
  max_tokens: 96,
};
const gone = new AbortController();
const aborted = await client.completions.create(
  { model, prompt: "Go on", max_tokens: 4000, temperature: 0, stream: true, ignore_eos: true },
  { signal: gone.signal },
);
let seen = 0;
for await (const _ of aborted) {
  if (++seen === 3) gone.abort();
}

const result = {
  models: (await client.models.list()).data.map((entry) => entry.id),
  whole: await client.chat.completions.create(sampled),
  streamed: await streamed(sampled),
  helper: await client.chat.completions.stream(sampled).finalContent(),
  tool: await client.chat.completions.create(called),
  toolStreamed: await streamed(called),
  completion: await client.completions.create({ model, prompt: [2683, 314], max_tokens: 8, temperature: 0, echo: true }),
  embedding: (await client.embeddings.create({ model, input: "a cat" })).data[0].embedding.length,
  badField: await refused(() => client.completions.create({ model, prompt: "Hi", frobnicate: 1 })),
  badModel: await refused(() => client.completions.create({ model: "no-such-model", prompt: "Hi" })),
  aborted: seen,
};
console.log(JSON.stringify(result));
