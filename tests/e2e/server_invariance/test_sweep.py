"""The invariance sweep through HTTP: short on a small random model, in full on the real one (`--long`)."""

import json
import pathlib
import shutil

import pytest
from mixed_requests import canonical, corpus, digest, mixed
from sweep import ROOT, failures, sweep

FIXTURE = ROOT / "tests" / "accuracy" / "fixtures" / "models" / "smollm2"


def reply(logprob=-1.5, **more):
    """A whole reply of two tokens."""
    logprobs = {
        "tokens": ["a", "b"],
        "token_logprobs": [-0.25, logprob],
        "top_logprobs": [{}, {}],
        "text_offset": [0, 1],
    }
    choice = {"index": 0, "text": "ab", "logprobs": logprobs, "finish_reason": "length", "token_ids": [5, 6], **more}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 64}}
    return {
        "id": "x",
        "model": "m",
        "system_fingerprint": "f",
        "choices": [choice],
        "usage": usage,
        "eadem": {"seed": 1},
    }


def streamed():
    """The same reply in pieces."""

    def event(text, ids, logprobs, finish_reason=None, **more):
        choice = {"index": 0, "text": text, "logprobs": logprobs, "token_ids": ids, "finish_reason": finish_reason}
        return {"id": "y", "model": "m", "system_fingerprint": "f", "choices": [choice], **more}

    def lists(token, logprob, offset):
        return {"tokens": [token], "token_logprobs": [logprob], "top_logprobs": [{}], "text_offset": [offset]}

    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    return [
        event("a", [5], lists("a", -0.25, 0), eadem={"seed": 1}),
        event("b", [6], lists("b", -1.5, 1)),
        event("", None, None, "length"),
        {"id": "y", "model": "m", "system_fingerprint": "f", "choices": [], "usage": usage},
    ]


def test_a_hash_is_of_what_the_request_decides_and_of_nothing_else():
    whole = digest(canonical([reply()]))
    assert digest(canonical(streamed())) == whole
    assert digest(canonical([{**reply(), "id": "other", "created": 7}])) == whole
    assert digest(canonical([reply(logprob=-1.5000001)])) != whole, "one bit of a float32"
    assert digest(canonical([reply(token_ids=[5, 7])])) != whole
    assert digest(canonical([reply(finish_reason="stop")])) != whole
    assert digest(canonical([{**reply(), "system_fingerprint": "g"}])) != whole
    assert digest(canonical([{**reply(), "eadem": {"seed": 2}}])) != whole


@pytest.mark.parametrize("spoil", [0, 1])
def test_a_lost_or_doubled_event_is_noticed(spoil):
    events = streamed()
    for spoilt in (events[:spoil] + events[spoil + 1 :], [*events[: spoil + 1], *events[spoil:]]):
        with pytest.raises(AssertionError):
            canonical(spoilt)


def test_the_sixty_are_all_kinds_and_lengths():
    asks = mixed(list(range(2, 6000)))
    assert len(asks) == 66 and len({ask.name for ask in asks}) == 66
    lengths = [len(ask.body["prompt"]) for ask in asks if "prompt" in ask.body]
    assert min(lengths) == 1 and max(lengths) == 3000
    assert sum(1 for ask in asks if ask.gone_after) == 5
    assert json.dumps([ask.body for ask in asks]) == json.dumps([ask.body for ask in mixed(list(range(2, 6000)))])
    assert corpus() == corpus()


def long_context(folder):
    """The small random model with room for 4,096 positions."""
    model = pathlib.Path(folder) / "model"
    shutil.copytree(FIXTURE, model)
    config = json.loads((model / "config.json").read_text())
    config["max_position_embeddings"] = 4096
    (model / "config.json").write_text(json.dumps(config))
    return model


def check(rows, passes):
    assert failures(rows) == []
    assert len(rows) >= passes
    assert any(row.free_order and row.differing for row in rows), "the control ran and failed"


def test_one_hash_a_request_in_every_short_configuration(tmp_path):
    check(sweep(long_context(tmp_path), tmp_path, count=13, longest=700, short=True), passes=8)


@pytest.mark.long
def test_one_hash_a_request_in_every_configuration_of_a_small_model(tmp_path):
    check(sweep(long_context(tmp_path), tmp_path), passes=22)


@pytest.mark.long
def test_one_hash_a_request_in_every_configuration_of_the_real_model(tmp_path, smollm2):
    check(sweep(smollm2, tmp_path), passes=22)
