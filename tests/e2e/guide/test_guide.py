"""Answers of the real model held to schemas, as a user of the program asks for them. Takes about a minute."""

import json
import os
import pathlib
import re
import subprocess

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = os.environ.get("EADEM", str(ROOT / "build" / "eadem"))
TIMEOUT = 600

NAME = {"type": "string", "maxLength": 24}
SCHEMAS = {
    "person": {
        "type": "object",
        "properties": {"name": NAME, "age": {"type": "integer", "minimum": 0, "maximum": 120}},
        "required": ["name", "age"],
        "additionalProperties": False,
    },
    "verdict": {
        "type": "object",
        "properties": {"sure": {"type": "boolean"}, "verdict": {"enum": ["yes", "no", "perhaps", 7, None]}},
        "required": ["verdict", "sure"],
        "additionalProperties": False,
    },
    "numbers": {
        "type": "array",
        "items": {"type": "integer", "minimum": -5, "maximum": 99},
        "minItems": 2,
        "maxItems": 5,
    },
    "order": {
        "type": "object",
        "properties": {
            "lines": {
                "type": "array",
                "minItems": 1,
                "maxItems": 3,
                "items": {
                    "type": "object",
                    "properties": {"item": NAME, "count": {"type": "integer", "minimum": 1, "maximum": 9}},
                    "required": ["item", "count"],
                    "additionalProperties": False,
                },
            }
        },
        "required": ["lines"],
        "additionalProperties": False,
    },
    "either": {"anyOf": [{"type": "null"}, {"type": "boolean"}, {"type": "string", "maxLength": 8}]},
    "code": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"},
    "date": {
        "type": "object",
        "properties": {"date": {"type": "string", "format": "date"}, "ip": {"type": "string", "format": "ipv4"}},
        "required": ["date", "ip"],
        "additionalProperties": False,
    },
    "tuple": {
        "type": "array",
        "prefixItems": [{"const": "point"}, {"type": "integer", "multipleOf": 5, "minimum": 0, "maximum": 100}],
        "items": False,
        "minItems": 2,
    },
    "shape": {
        "oneOf": [
            {
                "type": "object",
                "properties": {"kind": {"const": "circle"}, "radius": {"type": "integer", "maximum": 50, "minimum": 1}},
                "required": ["kind", "radius"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {"kind": {"const": "square"}, "side": {"type": "integer", "maximum": 50, "minimum": 1}},
                "required": ["kind", "side"],
                "additionalProperties": False,
            },
        ]
    },
    "tree": {
        "$defs": {
            "leaf": {
                "type": "object",
                "properties": {"v": {"enum": [1, 2]}},
                "required": ["v"],
                "additionalProperties": False,
            }
        },
        "type": "object",
        "properties": {"left": {"$ref": "#/$defs/leaf"}, "right": {"$ref": "#/$defs/leaf"}},
        "required": ["left", "right"],
        "additionalProperties": False,
    },
}


def request(name, guided=True, **fields):
    asked = {
        "id": name,
        "messages": [{"role": "user", "content": f"Give me a JSON example of: {name}."}],
        "temperature": 1.0,
        "seed": len(name),
        "n": 2,
        "max_tokens": 200,
        "logprobs": 1,
    }
    if guided:
        asked["response_format"] = {"type": "json_schema", "json_schema": {"name": name, "schema": SCHEMAS[name]}}
    return asked | fields


def run(smollm2, command, *arguments, status=0):
    done = subprocess.run([PROGRAM, command, "-m", smollm2, *map(str, arguments)], capture_output=True, timeout=TIMEOUT)
    assert done.returncode == status, done.stderr
    return done


def generate(smollm2, tmp_path, requests, *arguments, status=0):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps(r) + "\n" for r in requests))
    run(smollm2, "generate", "--in", source, "--out", target, *arguments, status=status)
    answers = [json.loads(line) for line in target.read_text().splitlines()]
    target.rename(tmp_path / "last.jsonl")
    return answers


def is_valid(text, name):
    try:
        jsonschema.validate(json.loads(text), SCHEMAS[name])
    except (ValueError, jsonschema.ValidationError):
        return False
    return True


def bits(answers):
    return sorted((a["id"], a["index"], a["token_ids"], a["logprobs"]) for a in answers)


def test_answers_validate_alone_and_together(smollm2, tmp_path):
    requests = [request(name) for name in SCHEMAS]
    together = generate(smollm2, tmp_path, requests)
    assert len(together) == 2 * len(SCHEMAS)
    for answer in together:
        assert answer["finish_reason"] == "stop", answer
        assert is_valid(answer["text"], answer["id"]), answer["text"]
    run(smollm2, "replay", tmp_path / "last.jsonl")
    alone = generate(smollm2, tmp_path, requests, "--max-batch", 1, "--prefill-chunk", 7)
    assert bits(alone) == bits(together)
    # The same without guides: then hardly any answer is what was asked for.
    free = generate(smollm2, tmp_path, [request(name, guided=False) for name in SCHEMAS])
    assert sum(is_valid(a["text"], a["id"]) for a in free) < 5


def test_other_guides(smollm2, tmp_path):
    base = {"prompt": "The answer is", "seed": 3, "max_tokens": 40}
    answers = generate(
        smollm2,
        tmp_path,
        [
            base | {"id": "regex", "guided_regex": "[0-9]{2,4} (apples|pears)"},
            base | {"id": "choice", "guided_choice": ["yes", 'no, "never"\n', "äöü €"]},
            base | {"id": "grammar", "guided_grammar": 'start: "<" /[a-z]{1,5}/ ">"'},
            base | {"id": "object", "response_format": {"type": "json_object"}, "max_tokens": 150},
            base | {"id": "new", "structured_outputs": {"choice": ["a", "b"]}, "temperature": 0},
            base | {"id": "text", "response_format": {"type": "text"}},
        ],
    )
    texts = {a["id"]: a["text"] for a in answers}
    assert re.fullmatch("[0-9]{2,4} (apples|pears)", texts["regex"])
    assert texts["choice"] in ("yes", 'no, "never"\n', "äöü €")
    assert re.fullmatch("<[a-z]{1,5}>", texts["grammar"])
    assert texts["object"].startswith("{")
    assert texts["new"] in ("a", "b")
    assert [a["finish_reason"] for a in answers if a["id"] in ("regex", "choice", "grammar", "new")] == ["stop"] * 4


@pytest.mark.parametrize(
    "field, value, named",
    [
        ("guided_json", {"not": {"type": "string"}}, "not"),
        ("guided_json", {"type": "array", "uniqueItems": True}, "uniqueItems"),
        ("guided_json", {"if": {"type": "null"}, "then": {"const": 1}}, "if"),
        ("guided_regex", "a(?=b)", "regular expression"),
        ("guided_regex", "a(" * 200, "nested deeper than 100"),
        ("guided_grammar", "begin: A", "start"),
        ("guided_choice", [], "an array of strings"),
        ("structured_outputs", {"regex": "a", "json": {}}, "one of"),
        ("response_format", {"type": "xml"}, "json_schema"),
        ("response_format", {"type": "json_schema", "json_schema": {"schema": {}}}, "json_schema.name"),
    ],
)
def test_what_is_refused_is_named(smollm2, tmp_path, field, value, named):
    answers = generate(smollm2, tmp_path, [{"prompt": "a", "max_tokens": 2, field: value}], status=1)
    message = answers[0]["error"]["message"]
    assert field in message and named in message
    assert len(message) < 700


def test_forced_tokens_stay_inside_the_guide(smollm2, tmp_path):
    asked = {"prompt": "a", "guided_regex": "[0-9]{3}", "seed": 1, "max_tokens": 8, "logprobs": 0}
    free = generate(smollm2, tmp_path, [asked])[0]
    forced = generate(smollm2, tmp_path, [asked | {"golden_token_ids": free["token_ids"]}])[0]
    assert (forced["token_ids"], forced["logprobs"]) == (free["token_ids"], free["logprobs"])
    wrong = generate(smollm2, tmp_path, [asked | {"golden_token_ids": [free["token_ids"][0], 100]}], status=1)
    assert "golden_token_ids leaves the guide at element 1" in wrong[0]["error"]["message"]
