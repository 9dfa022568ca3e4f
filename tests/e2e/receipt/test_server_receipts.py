"""Receipts that the server signs: whole and streamed, of several prompts, refused without a key."""

import json
import subprocess

from conftest import FIXTURE_MODELS, program


def test_the_server_signs_what_the_program_verifies(receipts, serve):
    server = serve("--receipt-key", receipts.key)
    status, _, told = server.get("/v1/fingerprint")
    assert status == 200 and told["receipts"]["public_key"] == receipts.public.read_text()
    body = {"prompt": [[1, 2, 3], [4, 5, 6, 7]], "n": 2, "max_tokens": 6, "seed": 3, "return_token_ids": True}
    status, _, plain = server.post("/v1/completions", body)
    assert status == 200 and "receipts" not in plain["eadem"]
    status, _, reply = server.post("/v1/completions", {**body, "receipt": True})
    assert status == 200 and len(reply["eadem"]["receipts"]) == len(reply["choices"]) == 4
    assert reply["choices"] == plain["choices"]
    chat = {"messages": [{"role": "user", "content": "ab"}], "max_tokens": 6, "seed": 4, "receipt": "hashes"}
    streamed = {**body, "stream": True, "receipt": True}
    events = [event for event in server.stream("/v1/completions", streamed) if isinstance(event, dict)]
    ends = [event for event in events if event["choices"] and event["choices"][0]["finish_reason"]]
    assert len(ends) == 4 and all(len(event["eadem"]["receipts"]) == 1 for event in ends)
    assert sum("receipts" in event.get("eadem", {}) for event in events) == 4

    file = receipts.folder / "replies.jsonl"
    lines = [reply, *ends]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    report = receipts.verify(file, "--threads", 1, "--beside", 2)
    assert report["equal"] == report["receipts"] == 8
    assert all(result["id"].startswith("cmpl-") for result in report["results"])
    if told["covers"]["chat_template"]:
        status, _, reply = server.post("/v1/chat/completions", chat)
        if status == 200:
            assert len(reply["eadem"]["receipts"]) == 1
    assert server.metric("eadem_receipts_total") >= 8


def test_without_a_key_the_field_is_refused(receipts, serve):
    server = serve()
    body = {"prompt": [1, 2], "max_tokens": 2}
    for value, part in ((True, "--receipt-key"), ("some", "must be true, false"), (1, "must be true, false")):
        status, _, reply = server.post("/v1/completions", {**body, "receipt": value})
        assert status == 400 and part in reply["error"]["message"] and reply["error"]["param"] == "receipt"
    assert server.post("/v1/completions", {**body, "receipt": False})[0] == 200
    assert server.get("/v1/fingerprint")[2]["receipts"] is None


def test_keys_that_cannot_sign_stop_the_start(receipts):
    model = FIXTURE_MODELS / "llama3"
    assert "is a public key" in receipts.error("serve", "-m", model, "--port", 0, "--receipt-key", receipts.public)
    free = [program(), "serve", "-m", model, "--port", "0", "--receipt-key", receipts.key, "--mode", "free"]
    done = subprocess.run(free, capture_output=True, text=True, timeout=120, env=receipts.environment)
    assert done.returncode == 2 and "mode free gives no receipts" in done.stderr.splitlines()[-1]
