"""What answers say, and that the same question has the same answer whichever way it is put."""

import json
import struct

import pytest

PROMPTS = ["ab", "the cat", [5, 6, 7, 8, 9], "Zürich 123", [1] * 40, "x"]


def bits(values):
    """Logprobs as float32 bits; each JSON number must be a float32 exactly."""
    out = []
    for value in values:
        if value is None:
            out.append(None)
            continue
        packed = struct.pack("<f", value)
        assert struct.unpack("<f", packed)[0] == value, "the number does not restore the float32"
        out.append(packed.hex())
    return out


def seeded(**fields):
    return {"temperature": 0.8, "top_p": 0.95, "top_k": 0, "seed": 11, "max_tokens": 12, "logprobs": 0, **fields}


def test_shape_of_an_answer(eadem):
    (answer,) = eadem.batch([seeded(id="a", prompt="the cat", logprobs=2, prompt_logprobs=1)])
    assert answer["line"] == 1 and answer["id"] == "a" and answer["index"] == 0
    count, prompt = len(answer["token_ids"]), len(answer["prompt_token_ids"])
    assert 1 <= count <= 12 and len(answer["logprobs"]) == len(answer["top_logprobs"]) == count
    assert len(answer["prompt_logprobs"]) == len(answer["prompt_top_logprobs"]) == prompt
    assert answer["prompt_logprobs"][0] is None
    for top in answer["top_logprobs"]:
        assert len(top) == 2 and top[0]["logprob"] >= top[1]["logprob"]
    assert answer["finish_reason"] in ("stop", "length")
    assert answer["usage"]["total_tokens"] == prompt + count
    assert answer["numerics"] == "fma32-v1" and len(answer["fingerprint"]) == 64 and answer["seed"] == 11


def test_effective_sampling_is_echoed(eadem):
    """generation_config.json, under the command line, under the line itself."""
    options = ["--top-p", "0.5", "--top-k", "7", "--seed", "3"]
    first, second = eadem.batch([{"prompt": "a", "top_k": 5}, {"prompt": "a"}], *options)
    assert first["sampling"]["temperature"] == pytest.approx(0.7)  # the model's
    assert first["sampling"]["top_p"] == 0.5 and second["sampling"]["top_p"] == 0.5
    assert first["sampling"]["top_k"] == 5 and second["sampling"]["top_k"] == 7
    assert second["seed"] == 3


def test_every_field_reads_back(eadem):
    """What an answer echoes is a request again, and has the same answer."""
    full = seeded(
        prompt="the",
        min_tokens=2,
        min_p=0.01,
        repetition_penalty=1.2,
        presence_penalty=0.3,
        frequency_penalty=0.2,
        logit_bias={"9": 2.5, "10": -100},
        stop=["qq"],
        stop_token_ids=[12],
        ignore_eos=True,
        logprobs_mode="processed",
        include_stop_str_in_output=True,
        skip_special_tokens=False,
        golden_token_ids=[20, 21],
    )
    (once,) = eadem.batch([full])
    (again,) = eadem.batch([{**once["sampling"], "prompt": "the"}])
    assert once == again
    assert once["token_ids"][:2] == [20, 21]


def test_options_are_the_fields(eadem):
    (line,) = eadem.batch([seeded(prompt=[3, 4, 5], stop_token_ids=[7], logit_bias={"9": 1.5}, repetition_penalty=1.5)])
    done = eadem(
        "generate",
        "--token-ids",
        "3 4 5",
        "--json",
        "--temperature",
        "0.8",
        "--top-p",
        "0.95",
        "--top-k",
        "0",
        "--seed",
        "11",
        "--max-tokens",
        "12",
        "--logprobs",
        "0",
        "--stop-token-ids",
        "7",
        "--logit-bias",
        "9=1.5",
        "--repetition-penalty",
        "1.5",
    )
    answer = json.loads(done.stdout)
    line.pop("line")
    assert answer == line


def test_repeated_options(eadem):
    done = eadem(
        "generate", "--stop", "aa", "--stop", "bb", "--logit-bias", "5=-1", "--logit-bias", "6=2", "a", "--json"
    )
    sampling = json.loads(done.stdout)["sampling"]
    assert sampling["stop"] == ["aa", "bb"] and sampling["logit_bias"] == {"5": -1.0, "6": 2.0}
    assert "--seed" in eadem.error("generate", "--seed", "1", "--seed", "2", "a")


def test_alone_and_together(eadem):
    """A batch, single requests, and other ways to run have the same bits; another seed has not."""
    requests = [seeded(prompt=p, seed=i) for i, p in enumerate(PROMPTS)]
    together = eadem.batch(requests, "--kv-hash")
    for ways in (
        ["--threads", "1", "--max-batch", "1"],
        ["--prefill-chunk", "3", "--force-preempt", "4", "--no-prefix-cache"],
    ):
        other = eadem.batch(requests, "--kv-hash", *ways)
        for a, b in zip(together, other, strict=True):
            assert a["token_ids"] == b["token_ids"] and bits(a["logprobs"]) == bits(b["logprobs"])
            assert a["kv_hash"] == b["kv_hash"] and a["fingerprint"] == b["fingerprint"]
    (alone,) = eadem.batch(requests[3:4], "--kv-hash")
    assert bits(alone["logprobs"]) == bits(together[3]["logprobs"]) and alone["kv_hash"] == together[3]["kv_hash"]
    (reseeded,) = eadem.batch([seeded(prompt=PROMPTS[3], seed=99)])
    assert reseeded["token_ids"] != alone["token_ids"]


def test_n_against_single_requests(eadem):
    answers = eadem.batch([seeded(prompt="the", n=3)])
    assert [a["index"] for a in answers] == [0, 1, 2] and {a["line"] for a in answers} == {1}
    assert len({tuple(a["token_ids"]) for a in answers}) == 3
    singles = eadem.batch([seeded(prompt="the", seed=a["seed"]) for a in answers])
    for a, b in zip(answers, singles, strict=True):
        assert a["token_ids"] == b["token_ids"] and bits(a["logprobs"]) == bits(b["logprobs"])


def test_score_equals_generation(eadem):
    answers = eadem.batch([seeded(prompt=p, ignore_eos=True) for p in PROMPTS])
    golden = [{"prompt": a["prompt_token_ids"], "golden_token_ids": a["token_ids"]} for a in answers]
    whole = [{"prompt": a["prompt_token_ids"] + a["token_ids"]} for a in answers]
    scores, reads = eadem.batch(golden, name="score"), eadem.batch(whole, name="score")
    for a, s, r in zip(answers, scores, reads, strict=True):
        assert s["token_ids"] == a["token_ids"] and bits(s["logprobs"]) == bits(a["logprobs"])
        assert bits(r["prompt_logprobs"][len(a["prompt_token_ids"]) :]) == bits(a["logprobs"])
        assert s["sum"] == pytest.approx(sum(a["logprobs"])) and s["count"] == len(a["token_ids"])


def test_score_of_a_text(eadem):
    (whole,) = eadem.batch([{"prompt": "the cat", "logprobs": 271}], name="score")
    assert whole["count"] == len(whole["prompt_token_ids"]) - 1 and whole["prompt_top_logprobs"][0] == []
    assert all(len(top) == 271 for top in whole["prompt_top_logprobs"][1:])
    (parts,) = eadem.batch([{"prompt": "the", "completion": " cat"}], name="score")
    assert parts["text"] == " cat" and parts["count"] == len(parts["token_ids"])
    (one,) = eadem.batch([{"prompt": [4]}], name="score")
    assert one["count"] == 0 and one["perplexity"] is None and one["prompt_logprobs"] == [None]


def forced(eadem, text):
    """A request that is made to answer `text`, and its token ids."""
    (tokens,) = eadem.batch([{"prompt": "a", "completion": text}], name="score")
    return dict(prompt="a", golden_token_ids=tokens["token_ids"], max_tokens=len(tokens["token_ids"])), tokens[
        "token_ids"
    ]


def test_stop_across_tokens(eadem):
    request, ids = forced(eadem, "one two three")
    assert len(ids) > 6  # the stop text below lies in several tokens
    plain, stopped, kept, first = eadem.batch(
        [
            request,
            {**request, "stop": ["e two"]},
            {**request, "stop": "e two", "include_stop_str_in_output": True},
            {**request, "stop": ["three", "wo t"]},
        ]
    )
    assert plain["text"] == "one two three" and plain["finish_reason"] == "length"
    assert stopped["text"] == "on" and stopped["finish_reason"] == "stop" and len(stopped["token_ids"]) < len(ids)
    assert kept["text"] == "one two"
    assert first["text"] == "one t"


def test_stream_is_the_text(eadem):
    """Characters of several bytes, each over several tokens, come out whole and the same as in JSON."""
    request, ids = forced(eadem, "Zürich, 東京 🙂")
    arguments = ["--raw", "a", "--golden-token-ids", " ".join(map(str, ids)), "--max-tokens", len(ids)]
    assert eadem("generate", *arguments).stdout.decode() == "Zürich, 東京 🙂\n"
    assert json.loads(eadem("generate", *arguments, "--json").stdout)["text"] == "Zürich, 東京 🙂"


def test_chat_template(eadem):
    """A prompt is a message where the model has a template; --raw takes it as it is."""
    chat = json.loads(eadem("generate", "hi", "--system", "be", "--json", "--seed", "1", "--max-tokens", "2").stdout)
    messages = [{"role": "system", "content": "be"}, {"role": "user", "content": "hi"}]
    (line,) = eadem.batch([{"messages": messages, "seed": 1, "max_tokens": 2}])
    raw = json.loads(eadem("generate", "hi", "--raw", "--json", "--seed", "1", "--max-tokens", "2").stdout)
    assert chat["prompt_token_ids"] == line["prompt_token_ids"] and chat["token_ids"] == line["token_ids"]
    assert len(raw["prompt_token_ids"]) < len(chat["prompt_token_ids"])


def test_chat(eadem):
    talk = "hello\n\n/reset\nhello\n/exit\nnever\n"
    arguments = ["--seed", "5", "--max-tokens", "6", "--json"]
    first, second = [json.loads(line) for line in eadem("chat", *arguments, stdin=talk).stdout.splitlines()]
    assert first == second and first["role"] == "assistant"
    longer = [json.loads(line) for line in eadem("chat", *arguments, stdin="hello\nhello").stdout.splitlines()]
    assert longer[0] == first and len(longer) == 2
    text = eadem("chat", *arguments[:4], stdin="hello\n").stdout.decode(errors="replace")
    assert text == first["content"] + "\n"


def test_a_completion_is_scored_as_it_follows_its_prompt(eadem):
    prompt, completion = "The lamp needs", " oil every night."
    parts, whole, merged = eadem.batch(
        [
            {"prompt": prompt, "completion": completion},
            {"prompt": prompt + completion},
            {"prompt": "ab", "completion": ""},
        ],
        name="score",
        status=1,
    )
    tail = len(parts["token_ids"])
    assert whole["prompt_token_ids"] == parts["prompt_token_ids"] + parts["token_ids"]
    assert whole["prompt_logprobs"][-tail:] == parts["logprobs"]
    assert "completion" in merged["error"]["message"]


def test_stop_strings_count_after_min_tokens(eadem):
    base = {"prompt": "once", "max_tokens": 12, "seed": 3, "temperature": 1.0, "ignore_eos": True}
    (free,) = eadem.batch([base])
    stop = free["text"][0]
    at_once, later = eadem.batch([{**base, "stop": stop}, {**base, "stop": stop, "min_tokens": 12}])
    assert len(at_once["token_ids"]) < 12
    assert len(later["token_ids"]) == 12
