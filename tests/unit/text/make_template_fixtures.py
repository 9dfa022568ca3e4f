#!/usr/bin/env python3
"""Renders templates/ with Jinja2, set up as the transformers library sets it up, into fixtures/templates.json.

    pip install jinja2==3.1.6
    python tests/unit/text/make_template_fixtures.py

A case is {template, context, overrides, output} or, where Jinja2 raises, {..., error}.
"""

import datetime
import json
import pathlib

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = pathlib.Path(__file__).parent
NOW = 1732892400  # 2024-11-29 15:00 UTC, a Friday

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Tells the weather of a place.",
            "parameters": {
                "type": "object",
                "required": ["city"],
                "properties": {
                    "city": {"type": "string", "description": 'Name, e.g. "Zürich"'},
                    "days": {"type": "integer", "default": 1},
                    "where": {
                        "type": "object",
                        "properties": {
                            "lat": {"type": "number"},
                            "lon": {"type": ["number", "null"], "description": ""},
                        },
                    },
                },
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Adds numbers.",
            "parameters": {
                "type": "object",
                "required": [],
                "properties": {"xs": {"type": "array", "items": {"type": "number"}}},
            },
        },
    },
]
CALL = {
    "id": "call12345",
    "type": "function",
    "function": {
        "name": "get_weather",
        "arguments": {"city": "Zürich", "days": 2, "min": -0.5, "x": 1e-7, "ok": True, "n": None},
    },
}
USER = {"role": "user", "content": ' What\'s the weather?\nTell me "now". 😀 '}
SYSTEM = {"role": "system", "content": "You are terse.  "}
ANSWER = {"role": "assistant", "content": "<think>\nhm, clouds\n</think>\n\nCloudy."}


def context(messages, **more):
    return {
        "messages": messages,
        "tools": None,
        "documents": None,
        "add_generation_prompt": True,
        "bos_token": "<s>",
        "eos_token": "</s>",
    } | more


CONTEXTS = {
    "one": context([USER]),
    "system": context([SYSTEM, USER], add_generation_prompt=False),
    "turns": context([SYSTEM, USER, ANSWER, {"role": "user", "content": "And <b>tomorrow</b> & 100%?\n\n"}]),
    "tools": context(
        [
            SYSTEM,
            USER,
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "call12345", "content": '{"temp": 3.5}'},
            {"role": "tool", "content": "42"},
        ],
        tools=TOOLS,
    ),
    "tools_first": context([{"role": "user", "content": "Add 1 and 2"}], tools=TOOLS),
    "parts": context([{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": " look \n"}]}]),
    "empty": context([{"role": "user", "content": ""}], documents=[{"text": "first"}, {"text": "second"}]),
    "wrong_roles": context([{"role": "assistant", "content": "I begin."}, {"role": "alien", "content": "x"}]),
    "no_messages": context([]),
}
OVERRIDES = {
    "one": {"enable_thinking": False, "date_string": "1 Jan 2000", "thinking": True},
    "tools": {"tools_in_user_message": False, "controls": {"length": "short"}},
    "turns": {"enable_thinking": True, "builtin_tools": ["search", "code_interpreter"]},
}


class Generation(jinja2.ext.Extension):
    """transformers' {% generation %}: a scope that renders as its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).strftime(
        form
    )
    return env


def main():
    cases = []
    for path in sorted((HERE / "templates").glob("*.jinja")):
        template = environment().from_string(path.read_text())
        for name, variables in CONTEXTS.items():
            for overrides in [{}] + ([OVERRIDES[name]] if name in OVERRIDES else []):
                case = {"template": path.name, "context": name, "overrides": overrides}
                try:
                    case["output"] = template.render(**(variables | overrides))
                except Exception as error:  # noqa: BLE001 - whatever a template meets, the engine must fail too
                    case["error"] = f"{type(error).__name__}: {error}"
                cases.append(case)
    text = json.dumps({"now": NOW, "contexts": CONTEXTS, "cases": cases}, ensure_ascii=False, indent=1)
    (HERE / "fixtures" / "templates.json").write_text(text)
    print(len(cases), "cases,", sum("error" in case for case in cases), "errors")


if __name__ == "__main__":
    main()
