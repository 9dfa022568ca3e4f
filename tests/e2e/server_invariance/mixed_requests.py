"""Sixty requests of every kind, and what of a reply is a function of its request.

A request is named, and the same for the same token ids; its reply is reduced to one hash: everything in `choices`, with
numbers as float32 bits, the tokens counted in `usage`, the fingerprint and the object `eadem`. What a server may choose
is left out: id, created, and how many tokens came from a cache. A streamed reply and a whole one have the same hash.
"""

import base64
import dataclasses
import hashlib
import json
import random
import struct

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "kind": {"enum": ["cat", "dog", "bird"]},
        "age": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["name", "kind", "age"],
    "additionalProperties": False,
}
SENTENCES = (
    "The harbour clock ran seven minutes fast in winter.",
    "A baker knows how much flour the damp will take.",
    "Write a function that adds two numbers: def add(a, b): return a + b",
    "def add(a, b): return a + b",
    "Nobody in the town wanted it repaired, and visitors missed their boats.",
    "How many rivers flow through the city, and what are their names?",
    "Le port était fermé; 港は閉まっていた; гавань была закрыта.",
    "One, two, three, four, five, six, seven, eight, nine, ten.",
)
GONE_TOKENS = 300  # so many that no answer is done before its client goes
GROWING = {"max_tokens": 150, "ignore_eos": True}  # over several KV blocks, so that they run out on the way
# In tokens, around the edges of KV blocks of 64 and of attention splits of 1,024 keys.
LENGTHS = (
    1,
    2,
    5,
    17,
    40,
    63,
    64,
    65,
    90,
    127,
    128,
    129,
    150,
    200,
    256,
    300,
    400,
    500,
    700,
    1023,
    1100,
    1500,
    2100,
    3000,
)
KINDS = (
    "greedy",
    "seeded",
    "penalised",
    "top-k",
    "schema",
    "n",
    "scored",
    "chat",
    "chat-logprobs",
    "echo",
    "stops",
    "gone",
)


def corpus(words=6000):
    """A text of many sentences, some of them again and again: the same in every run."""
    rng = random.Random(60)
    return " ".join(rng.choice(SENTENCES) for _ in range(words // 10))


@dataclasses.dataclass
class Ask:
    """One request."""

    name: str
    path: str
    body: dict
    gone_after: int = 0  # tokens after which the client goes away; 0: it stays

    @property
    def length(self):
        """Tokens of the prompt; of a chat, about."""
        return int(self.name.rsplit("-", 1)[1])

    @property
    def can_stream(self):
        return self.path != "/v1/embeddings"


def _completion(kind, prompt, rng):
    body = {"prompt": prompt, "max_tokens": rng.choice([9, 14, 22, 40]), "seed": rng.randrange(1 << 32)}
    extra = {
        "greedy": {"temperature": 0, **GROWING},
        "seeded": {"temperature": 0.8, "top_p": 0.95, "logprobs": 2, **GROWING},
        "penalised": {
            "repetition_penalty": 1.3,
            "presence_penalty": 0.5,
            "frequency_penalty": 0.4,
            "temperature": 0.7,
            **GROWING,
        },
        "top-k": {"top_k": 20, "min_p": 0.05, "logprobs": 0, **GROWING},
        "n": {"n": 4, "temperature": 1.0, "logprobs": 1},
        "scored": {"temperature": 0, "logprobs": 3, "prompt_logprobs": 2},
        "echo": {"echo": True, "logprobs": 2, "temperature": 0.9},
        "stops": {"stop": ["the", "."], "logit_bias": {"7": 2.5, "40": -3}, "temperature": 1.2, "min_tokens": 3},
        "gone": {"temperature": 0.9, "ignore_eos": True, "max_tokens": GONE_TOKENS, "logprobs": 1},
        "schema": {"response_format": {"type": "json_schema", "json_schema": {"name": "pet", "schema": SCHEMA}}},
    }[kind]
    return {**body, **extra, "return_token_ids": True}


def mixed(ids, count=60, longest=3000):
    """`count` requests over the token ids of corpus(), and one embedding to each ten of them."""
    rng = random.Random(4)
    lengths = [min(length, longest) for length in LENGTHS]
    asks = []
    for i in range(count):
        kind = KINDS[i % len(KINDS)]
        # Every kind meets short and long prompts; scored and echoed ones stay short, for their replies' sake.
        length = lengths[(i * 7) % len(lengths)] if i >= len(KINDS) else lengths[(2 * i) % len(lengths)]
        length = min(length, 150) if kind in ("scored", "echo") else length
        start = 0 if i % 5 == 0 else rng.randrange(len(ids) - length)  # every fifth shares its beginning
        prompt = ids[start : start + length]
        name = f"{i:02}-{kind}-{length}"
        if kind.startswith("chat"):
            asks.append(Ask(name, "/v1/chat/completions", _chat(kind, i, length, rng)))
        else:
            asks.append(Ask(name, "/v1/completions", _completion(kind, prompt, rng), 6 if kind == "gone" else 0))
        if i % 10 == 9:
            body = {"input": prompt, "pooling": "mean" if i % 20 == 9 else "last", "encoding_format": "base64"}
            asks.append(Ask(f"{i:02}-embedding-{length}", "/v1/embeddings", body))
    return asks


def _chat(kind, i, length, rng):
    text = " ".join(rng.choice(SENTENCES) for _ in range(max(1, length // 70)))
    messages = [{"role": "user", "content": text}]
    if i % 2:
        messages = [{"role": "system", "content": "Be brief."}, *messages, {"role": "assistant", "content": "Yes."}]
        messages.append({"role": "user", "content": "And then?"})
    body = {"messages": messages, "max_tokens": 18, "seed": rng.randrange(1 << 32), "return_token_ids": True}
    if kind == "chat-logprobs":
        body.update(logprobs=True, top_logprobs=4, temperature=0)
    return body


# ---- Replies -------------------------------------------------------------------------------------------------------


def bits(value):
    """The same structure with every float as the bits of a float32."""
    if isinstance(value, float):
        return "f32:" + struct.pack(">f", value).hex()
    if isinstance(value, list):
        return [bits(entry) for entry in value]
    if isinstance(value, dict):
        return {key: bits(entry) for key, entry in value.items()}
    return value


def digest(value):
    return hashlib.sha256(json.dumps(bits(value), sort_keys=True).encode()).hexdigest()


LISTS = ("tokens", "token_logprobs", "top_logprobs", "text_offset", "content")  # of `logprobs`


def _join_choice(state, choice):
    assert state["finish_reason"] is None, f"a choice goes on after its end: {choice}"
    message = choice.get("delta") or choice.get("message") or {}
    state["text"] += message.get("content") or choice.get("text") or ""
    state["reasoning"] += message.get("reasoning_content") or ""
    for call in message.get("tool_calls") or []:
        state["calls"].append([call["function"]["name"], call["function"]["arguments"], call.get("id")])
    for key in LISTS:
        state["logprobs"].setdefault(key, []).extend((choice.get("logprobs") or {}).get(key) or [])
    for key in ("token_ids", "prompt_token_ids", "prompt_logprobs"):
        state[key] += choice.get(key) or []
    state["finish_reason"] = choice["finish_reason"]


def canonical(events):
    """One reply, from its events or from the one object that it is."""
    choices, reply = {}, {"eadem": None, "usage": None}
    for event in events:
        for key in ("model", "system_fingerprint"):
            assert reply.setdefault(key, event.get(key)) == event.get(key), (key, event)
        reply["eadem"] = event.get("eadem") or reply["eadem"]
        usage = event.get("usage") or {}
        if usage:
            reply["usage"] = [usage["prompt_tokens"], usage["completion_tokens"]]
        for choice in event["choices"]:
            empty = {"text": "", "reasoning": "", "calls": [], "logprobs": {}, "finish_reason": None}
            lists = {"token_ids": [], "prompt_token_ids": [], "prompt_logprobs": []}
            _join_choice(choices.setdefault(choice["index"], {**empty, **lists}), choice)
    for index, choice in choices.items():
        assert choice["finish_reason"], f"choice {index} did not finish"
    reply["choices"] = [choices[index] for index in sorted(choices)]
    assert sorted(choices) == list(range(len(choices))), sorted(choices)
    counted = sum(len(choice["token_ids"]) for choice in reply["choices"])
    assert reply["usage"] and counted == reply["usage"][1], f"lost or doubled tokens: {counted}, {reply['usage']}"
    return reply


def head_of(stream, tokens):
    """The first `tokens` tokens of a stream with their logprobs; the client goes away then."""
    ids, logprobs, eadem = [], [], None
    while len(ids) < tokens:
        event = stream.next()
        eadem = event.get("eadem") or eadem
        for choice in event["choices"]:
            assert choice["finish_reason"] is None, f"the answer ended before its client went: {choice}"
            ids += choice.get("token_ids") or []
            logprobs += (choice.get("logprobs") or {}).get("token_logprobs") or []
    stream.close()
    return {"token_ids": ids[:tokens], "logprobs": logprobs[:tokens], "eadem": eadem}


def embedding_of(reply):
    vectors = [base64.b64decode(entry["embedding"]).hex() for entry in reply["data"]]
    return {"vectors": vectors, "model": reply["model"], "eadem": reply.get("eadem")}


def send(server, ask, stream, timeout=1800):
    """(hash, reply) of one request."""
    if ask.gone_after:
        reply = head_of(server.stream(ask.path, ask.body, timeout=timeout), ask.gone_after)
    elif not ask.can_stream:
        reply = embedding_of(server.ask(ask.path, ask.body, timeout=timeout))
    elif stream:
        options = {"stream_options": {"include_usage": True}}
        reply = canonical(server.stream(ask.path, {**ask.body, **options}, timeout=timeout))
    else:
        reply = canonical([server.ask(ask.path, ask.body, timeout=timeout)])
    return digest(reply), reply
