"""The official `openai` client for Python: what its users write works, and gives the same bits however it is asked."""

import asyncio
import json
import math

import openai
import pydantic
import pytest

GREEDY = {"temperature": 0, "max_tokens": 24}
QUESTION = [{"role": "user", "content": "Name three rivers of Europe, one a line."}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 20},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city", "unit"],
            "additionalProperties": False,
        },
    },
}


class Verdict(pydantic.BaseModel):
    answer: bool
    confidence: int


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=300) as client:
        yield client


@pytest.fixture(scope="module")
def model(server):
    return server.model_name()


def logprobs_of(choice):
    return [(entry.token, entry.bytes, entry.logprob) for entry in choice.logprobs.content]


def test_models(client, model):
    assert model in [entry.id for entry in client.models.list()]
    assert client.models.retrieve(model).id == model


def test_chat_is_repeated_bit_for_bit(client, model):
    body = {"model": model, "messages": QUESTION, "seed": 11, "temperature": 0.9, "top_p": 0.95, "max_tokens": 24}
    first = client.chat.completions.create(**body, logprobs=True, top_logprobs=3)
    second = client.chat.completions.create(**body, logprobs=True, top_logprobs=3)
    assert first.object == "chat.completion" and first.choices[0].message.role == "assistant"
    assert first.choices[0].message.content
    assert first.choices[0].message.content == second.choices[0].message.content
    assert logprobs_of(first.choices[0]) == logprobs_of(second.choices[0])
    assert first.system_fingerprint and first.system_fingerprint == second.system_fingerprint
    assert first.usage.completion_tokens == len(first.choices[0].logprobs.content)
    assert first.usage.total_tokens == first.usage.prompt_tokens + first.usage.completion_tokens
    assert all(len(entry.top_logprobs) == 3 for entry in first.choices[0].logprobs.content)
    # The control: another seed is another answer.
    other = client.chat.completions.create(**{**body, "seed": 12}, logprobs=True)
    assert logprobs_of(other.choices[0]) != logprobs_of(first.choices[0])


def test_chat_without_a_seed_tells_one_that_repeats_it(client, model):
    body = {"model": model, "messages": QUESTION, "temperature": 1.0, "max_tokens": 16}
    first = client.chat.completions.create(**body)
    again = client.chat.completions.create(**body, seed=first.model_extra["eadem"]["seed"])
    assert again.choices[0].message.content == first.choices[0].message.content


def test_a_chat_stream_joins_to_the_unstreamed_answer(client, model):
    body = {"model": model, "messages": QUESTION, "seed": 5, "temperature": 0.8, "max_tokens": 24, "logprobs": True}
    whole = client.chat.completions.create(**body)
    text, logprobs, reasons, usage, ids, roles = "", [], [], None, set(), []
    for chunk in client.chat.completions.create(**body, stream=True, stream_options={"include_usage": True}):
        assert chunk.object == "chat.completion.chunk"
        ids.add(chunk.id)
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            roles += [choice.delta.role] if choice.delta.role else []
            logprobs += logprobs_of(choice) if choice.logprobs else []
            reasons += [choice.finish_reason] if choice.finish_reason else []
    assert text == whole.choices[0].message.content
    assert logprobs == logprobs_of(whole.choices[0])
    assert reasons == [whole.choices[0].finish_reason]
    assert roles == ["assistant"] and len(ids) == 1
    assert usage.completion_tokens == whole.usage.completion_tokens
    assert usage.prompt_tokens == whole.usage.prompt_tokens


def test_the_stream_helper(client, model):
    body = {"model": model, "messages": QUESTION, "temperature": 0, "max_tokens": 64, "stop": [" the", "\n"]}
    with client.chat.completions.stream(**body) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert {"content.delta", "content.done"} <= kinds
    whole = client.chat.completions.create(**body)
    assert final.choices[0].message.content == whole.choices[0].message.content


def test_completions_of_several_prompts_and_token_ids(client, model, server):
    prompts = ["The sky is", "One, two, three,", "It was a dark night and the wind blew over the old roofs of the town"]
    together = client.completions.create(model=model, prompt=prompts, logprobs=2, **GREEDY)
    assert [choice.index for choice in together.choices] == [0, 1, 2]
    for choice, prompt in zip(together.choices, prompts, strict=True):
        ids = server.ask("/tokenize", {"prompt": prompt})["tokens"]
        alone = client.completions.create(model=model, prompt=ids, logprobs=2, **GREEDY).choices[0]
        assert alone.text == choice.text
        assert alone.logprobs.token_logprobs == choice.logprobs.token_logprobs
        assert alone.logprobs.tokens == choice.logprobs.tokens
        assert alone.logprobs.top_logprobs == choice.logprobs.top_logprobs


def test_echo_with_logprobs(client, model, server):
    prompt = "Rivers carry water to the sea."
    answer = client.completions.create(model=model, prompt=prompt, echo=True, logprobs=1, temperature=0, max_tokens=4)
    choice, count = answer.choices[0], answer.usage.prompt_tokens
    assert choice.text.startswith(prompt)
    assert len(choice.logprobs.tokens) == count + answer.usage.completion_tokens
    assert choice.logprobs.token_logprobs[0] is None
    assert all(value <= 0 for value in choice.logprobs.token_logprobs[1:])
    assert choice.logprobs.text_offset[0] == 0
    for token, offset in zip(choice.logprobs.tokens, choice.logprobs.text_offset, strict=True):
        assert choice.text[offset:].startswith(token)


def test_n_answers(client, model):
    body = {"model": model, "prompt": "Once", "temperature": 1.0, "max_tokens": 12, "logprobs": 0}
    many = client.completions.create(**body, n=3, seed=3)
    assert [choice.index for choice in many.choices] == [0, 1, 2]
    assert len({choice.text for choice in many.choices}) == 3
    again = client.completions.create(**body, n=3, seed=3)
    assert [c.logprobs.token_logprobs for c in many.choices] == [c.logprobs.token_logprobs for c in again.choices]
    texts = ["", "", ""]
    for chunk in client.completions.create(**body, n=3, seed=3, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    assert texts == [choice.text for choice in many.choices]


def test_stop_and_bias(client, model):
    free = client.completions.create(model=model, prompt="a b c d e f g", **GREEDY)
    stop = free.choices[0].text.strip()[3:6]
    cut = client.completions.create(model=model, prompt="a b c d e f g", stop=[stop], **GREEDY)
    assert cut.choices[0].finish_reason == "stop"
    assert cut.choices[0].text == free.choices[0].text.split(stop)[0]
    biased = client.completions.create(model=model, prompt="a b", logit_bias={"41": 100}, temperature=0, max_tokens=3)
    assert biased.choices[0].finish_reason == "length"
    assert biased.choices[0].text != client.completions.create(model=model, prompt="a b", **GREEDY).choices[0].text[:3]


def test_many_at_once_are_each_as_alone(server, model):
    bodies = [
        {"model": model, "messages": [{"role": "user", "content": f"Count from {i} to ten."}], "seed": i}
        for i in range(12)
    ]

    async def ask_all():
        async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as client:

            async def whole(body):
                answer = await client.chat.completions.create(**body, temperature=0.7, max_tokens=16, logprobs=True)
                return answer.choices[0].message.content

            async def streamed(body):
                text = ""
                async for chunk in await client.chat.completions.create(
                    **body, temperature=0.7, max_tokens=16, logprobs=True, stream=True
                ):
                    text += "".join(choice.delta.content or "" for choice in chunk.choices)
                return text

            alone = [await whole(body) for body in bodies]
            together = await asyncio.gather(*(whole(b) for b in bodies), *(streamed(b) for b in bodies))
            return alone, together

    alone, together = asyncio.run(ask_all())
    assert together == alone + alone
    assert len(set(alone)) > 6


# ---- tools and structured output ----


def test_a_tool_is_called(client, model):
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "What is the weather in Paris, in celsius?"}],
        "tools": [WEATHER],
        "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
        "temperature": 0,
        "max_tokens": 96,
    }
    whole = client.chat.completions.create(**body)
    (call,) = whole.choices[0].message.tool_calls
    assert call.type == "function" and call.id and call.function.name == "get_weather"
    arguments = json.loads(call.function.arguments)
    assert set(arguments) == {"city", "unit"} and arguments["unit"] in ("celsius", "fahrenheit")
    name, text, ids, reason = "", "", set(), None
    for chunk in client.chat.completions.create(**body, stream=True):
        for choice in chunk.choices:
            reason = choice.finish_reason or reason
            assert not choice.delta.content
            for delta in choice.delta.tool_calls or []:
                assert delta.index == 0
                ids |= {delta.id} if delta.id else set()
                name += delta.function.name or ""
                text += delta.function.arguments or ""
    assert (name, text) == ("get_weather", call.function.arguments)
    assert len(ids) == 1 and reason == whole.choices[0].finish_reason


def test_a_conversation_with_a_tool_result_goes_on(client, model):
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
    answer = client.chat.completions.create(
        model=model,
        messages=[
            {"role": "user", "content": "What is the weather in Paris?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
        ],
        tools=[WEATHER],
        tool_choice="none",
        **GREEDY,
    )
    assert answer.choices[0].message.content and not answer.choices[0].message.tool_calls


def test_tools_by_the_stream_helper(client, model):
    with client.chat.completions.stream(
        model=model,
        messages=[{"role": "user", "content": "Weather in Rome?"}],
        tools=[WEATHER],
        tool_choice="required",
        temperature=0,
        max_tokens=96,
    ) as stream:
        done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
    assert done and done[0].name == "get_weather" and json.loads(done[0].arguments)["unit"]


def test_a_pydantic_model_is_parsed(client, model):
    body = {"model": model, "messages": [{"role": "user", "content": "Is ice cold?"}], "temperature": 0, "seed": 1}
    answer = client.chat.completions.parse(**body, response_format=Verdict, max_tokens=64)
    assert isinstance(answer.choices[0].message.parsed, Verdict)
    with client.chat.completions.stream(**body, response_format=Verdict, max_tokens=64) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.parsed == answer.choices[0].message.parsed
    assert final.choices[0].message.content == answer.choices[0].message.content


def test_json_object(client, model):
    answer = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": "Answer in JSON: the capital of France"}],
        response_format={"type": "json_object"},
        temperature=0,
        max_tokens=64,
    )
    if answer.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(answer.choices[0].message.content), dict)
    else:
        assert answer.choices[0].message.content.lstrip().startswith("{")


# ---- embeddings ----


def test_embeddings(client, model):
    texts = ["a cat sat on the mat", "a kitten rested on a rug", "the parliament passed a law"]
    floats = client.embeddings.create(model=model, input=texts, encoding_format="float")
    packed = client.embeddings.create(model=model, input=texts)  # the client asks for base64 by itself
    assert [entry.index for entry in floats.data] == [0, 1, 2]
    for entry, same in zip(floats.data, packed.data, strict=True):
        assert math.isclose(sum(x * x for x in entry.embedding), 1.0, rel_tol=1e-5)
        assert len(entry.embedding) == len(same.embedding)
        assert all(math.isclose(a, b, rel_tol=1e-7) for a, b in zip(entry.embedding, same.embedding, strict=True))
    alone = client.embeddings.create(model=model, input=texts[1], encoding_format="float")
    assert alone.data[0].embedding == floats.data[1].embedding
    assert alone.data[0].embedding != floats.data[0].embedding
    assert floats.usage.prompt_tokens == floats.usage.total_tokens > 3


# ---- errors ----


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"extra_body": {"frobnicate": 1}}, "frobnicate"),
        ({"temperature": -1}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"n": 0}, "n"),
        ({"logit_bias": {"999999": 1}}, "logit_bias"),
        ({"extra_body": {"best_of": 3}}, "best_of"),
    ],
)
def test_a_bad_field_is_a_bad_request_that_names_it(client, model, change, field):
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(**{"model": model, "prompt": "Hi", "max_tokens": 2, **change})
    assert field in caught.value.message
    assert caught.value.type == "invalid_request_error"
    assert caught.value.param is None or field in caught.value.param


def test_too_long_a_prompt_is_refused(client, model):
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model=model, prompt="word " * 20000, max_tokens=2)
    assert caught.value.code in (None, "context_length_exceeded")


def test_a_schema_that_cannot_be_held_is_refused(client, model):
    schema = {
        "name": "s",
        "schema": {"type": "array", "uniqueItems": True, "items": {"type": "integer"}},
        "strict": True,
    }
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            model=model, messages=QUESTION, response_format={"type": "json_schema", "json_schema": schema}, **GREEDY
        )
    assert "uniqueItems" in caught.value.message


def test_an_unknown_model_is_not_found(client):
    with pytest.raises(openai.NotFoundError) as caught:
        client.completions.create(model="no-such-model", prompt="Hi", max_tokens=2)
    assert "no-such-model" in caught.value.message
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("no-such-model")


def test_a_client_that_times_out_frees_what_it_held(client, model, server):
    before = server.wait_idle()
    # Time enough for the server to begin with it, and too little for the answer.
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=3).completions.create(
            model=model, prompt="Go on", max_tokens=6000, temperature=0, extra_body={"ignore_eos": True}
        )
    server.wait_ended("cancelled", before["answers"]["cancelled"] + 1)
    server.wait_idle()


def test_api_keys(serve):
    server = serve("--api-key", "sesame", "--served-model-name", "tiny")
    for key in ("wrong", "sesam", "sesame2"):
        stranger = openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0)
        with stranger, pytest.raises(openai.AuthenticationError):
            stranger.completions.create(model="tiny", prompt="Hi", max_tokens=2)
    with openai.OpenAI(base_url=server.url + "/v1", api_key="sesame", max_retries=0) as friend:
        # Without a seed: it may draw the end at once.
        answer = friend.completions.create(model="tiny", prompt="Hi", max_tokens=2, extra_body={"ignore_eos": True})
        assert answer.usage.completion_tokens == 2
