"""Receipts made by one kernel set are verified by every other, under each numerics; what is none is told apart."""

import base64
import json
import shutil
import stat
import subprocess

import pytest

from conftest import FIXTURE_MODELS, ROOT

NUMERICS = ["fma32", "int8", "mma16"]
GOLDEN = ROOT / "tests" / "e2e" / "receipt" / "golden"
REQUESTS = [
    {"id": "drawn", "prompt": [11, 40, 7, 95, 3, 61, 22], "max_tokens": 12, "seed": 5, "temperature": 0.8},
    {"id": "greedy", "prompt": [1, 2, 3], "max_tokens": 9, "temperature": 0, "seed": 0, "logprobs": 2},
    {"id": "scored", "prompt": list(range(3, 50)), "max_tokens": 3, "seed": 9, "prompt_logprobs": 1, "n": 2},
]
ONE = REQUESTS[:1]


def statement_of(receipt):
    return json.loads(base64.b64decode(json.loads(receipt)["payload"]))


@pytest.mark.parametrize("numerics", NUMERICS)
def test_one_kernel_set_makes_what_every_other_verifies(receipts, kernel_sets, numerics):
    best = kernel_sets[-1]
    options = ["--numerics", numerics, "--isa", best, "--threads", 2]
    file, answers = receipts.make("made.jsonl", REQUESTS, *options)
    lines = file.read_text().splitlines()
    assert len(lines) == len(answers) == 4
    for line, answer in zip(lines, answers, strict=True):
        predicate = statement_of(line)["predicate"]
        assert predicate["answer"]["token_ids"] == answer["token_ids"]
        assert predicate["request"]["prompt_token_ids"] == answer["prompt_token_ids"]
        assert predicate["identity"]["digest"] == answer["fingerprint"]
        assert predicate["identity"]["parts"]["numerics"] == answer["numerics"]
        assert predicate["deployment"]["parts"]["isa"] == best
    for isa in kernel_sets:
        for more in (["--threads", 1, "--max-batch", 1], ["--threads", 3, "--beside", 6]):
            if isa == "reference" and "--beside" in more and numerics == "mma16":
                continue  # minutes, for what avx2 shows as well
            report = receipts.verify(file, "--isa", isa, *more)
            assert report["verified"] and report["equal"] == 4
            run = report["runs"][0]
            assert run["isa"] == isa and run["numerics"].startswith(numerics)
            beside = "--beside" in more
            assert (run["max_sequences"] > 6) == beside and (run["mixed_steps"] > 0) == beside


def test_the_real_model(receipts, kernel_sets, smollm2):
    messages = [{"role": "user", "content": "Name three colours."}]
    requests = [{"messages": messages, "max_tokens": 12, "seed": 3, "temperature": 0.7}]
    best, second = kernel_sets[-1], kernel_sets[-2]
    file, _ = receipts.make("real.jsonl", requests, "--isa", best, "--threads", 2, model=smollm2)
    report = receipts.verify(file, "--isa", second, "--threads", 1, "--beside", 2, model=smollm2)
    assert report["verified"] and report["runs"][0]["isa"] == second
    assert report["results"][0]["output_tokens"] > 0


def test_golden_receipts_of_another_machine(receipts, kernel_sets):
    """Made once, on the machine that the receipts name; whatever runs this test must find the same bits."""
    lines = (GOLDEN / "receipts.jsonl").read_text().splitlines()
    assert {statement_of(line)["predicate"]["identity"]["parts"]["numerics"] for line in lines} == {
        "fma32-v1",
        "int8-v1",
        "mma16-v1",
    }
    for isa in kernel_sets:
        options = ["--isa", isa, "--despite-identity"]
        report = receipts.verify(GOLDEN / "receipts.jsonl", *options, key=GOLDEN / "signer.pub")
        assert report["verified"] and report["equal"] == len(lines), report["results"]
        assert len(report["runs"]) == 3
        # Libraries that make text of tokens may be newer ones; no number here knows them.
        others = {field for result in report["results"] for field in result.get("other_fields", [])}
        assert others <= {"text_libraries"}


def test_no_changed_bit_is_taken_for_a_receipt(receipts):
    """Each region of the envelope, changed: its own verdict, and a message that says what it is."""
    file, _ = receipts.make("made.jsonl", ONE)
    whole = file.read_text().strip()
    envelope = json.loads(whole)
    assert receipts.verdict(whole, status=0)[0] == "equal"

    # Several bits at many places, checked in one go: no line is signed, and every kind of fault is among them.
    lines = []
    for at in range(0, len(whole), 7):
        flipped = bytearray(whole.encode())
        flipped[at] ^= 1 << (at % 7)
        if b"\n" not in flipped and flipped.strip():
            lines.append(bytes(flipped))
    (receipts.folder / "flipped.jsonl").write_bytes(whole.encode() + b"\n" + b"\n".join(lines) + b"\n")
    report = receipts.verify(receipts.folder / "flipped.jsonl", "--signature-only", status=1)
    verdicts = [result["verdict"] for result in report["results"]]
    assert report["signed"] == 1 and verdicts[0] == "signed" and len(verdicts) == len(lines) + 1
    assert set(verdicts[1:]) == {"no_envelope", "other_type", "unknown_key", "bad_signature"}

    def changed(**fields):
        return json.dumps({**envelope, **fields})

    payload = base64.b64decode(envelope["payload"])
    signature = envelope["signatures"][0]
    other_payload = base64.b64encode(payload.replace(b'"seed":5', b'"seed":6')).decode()
    assert other_payload != envelope["payload"]
    bad_sig = base64.b64encode(bytes(64)).decode()
    cases = [
        (changed(payload=other_payload), "bad_signature", "bad signature: ", 1),
        (changed(signatures=[{**signature, "sig": bad_sig}]), "bad_signature", "bad signature: ", 1),
        (changed(signatures=[{**signature, "keyid": "0" * 64}]), "unknown_key", "unknown key: signed by '000", 1),
        (changed(payloadType="text/plain"), "other_type", "another payload type: 'text/plain'", 2),
        (changed(signatures=[]), "no_envelope", "no DSSE envelope: field 'signatures'", 2),
        (whole[:-1], "no_envelope", "no DSSE envelope: not valid JSON", 2),
        ("[" * 100000, "no_envelope", "no DSSE envelope: ", 2),
        (b"\xff\xfe\x00", "no_envelope", "no DSSE envelope: ", 2),
    ]
    for text, verdict, message, status in cases:
        found = receipts.verdict(text, status=status)
        assert (found[0], found[1][: len(message)]) == (verdict, message)
    assert "holds no receipt" in receipts.error("verify", _empty(receipts), "--key", receipts.public)


def _empty(receipts):
    file = receipts.folder / "empty.jsonl"
    file.write_text("\n\n")
    return file


def test_another_key_model_tokenizer_template_and_numerics_are_told_apart(receipts):
    file, _ = receipts.make("made.jsonl", ONE, model=FIXTURE_MODELS / "llama2")
    whole = file.read_text()
    stranger = receipts.folder / "stranger.key"
    receipts.run("keygen", "--out", stranger)
    assert receipts.verdict(whole, key=f"{stranger}.pub", model=FIXTURE_MODELS / "llama2")[0] == "unknown_key"

    def copy(name, file, change):
        folder = receipts.folder / name
        shutil.copytree(FIXTURE_MODELS / "llama2", folder)
        (folder / file).write_bytes(change((folder / file).read_bytes()))
        return folder

    def one_bit(weights):
        """Of the first weight of the final norm: the least that bfloat16 would keep."""
        header = int.from_bytes(weights[:8], "little")
        norm = json.loads(weights[8 : 8 + header])["model.norm.weight"]
        assert norm["dtype"] == "F16"
        at = 8 + header + norm["data_offsets"][0]
        return weights[:at] + bytes([weights[at] ^ 8]) + weights[at + 1 :]

    same = copy("same", "model.safetensors", lambda weights: weights)
    bit = copy("bit", "model.safetensors", one_bit)
    text = copy("text", "tokenizer.json", lambda tokenizer: tokenizer + b"\n")
    template = receipts.folder / "template.jinja"
    template.write_text("{{ messages[0].content }}")
    assert receipts.verdict(whole, model=same, status=0)[0] == "equal"
    cases = [
        (bit, [], ["weights"], "another model (weights): "),
        (text, [], ["tokenizer"], "another tokenizer: "),
        (same, ["--chat-template", template], ["chat_template"], "another chat template: "),
        (same, ["--numerics", "int8"], ["numerics"], "another numerics: 'fma32-v1' in the receipt, 'int8-v1' here"),
    ]
    for model, options, fields, message in cases:
        verdict, found, result = receipts.verdict(whole, *options, model=model)
        assert (verdict, result["other_fields"]) == ("other_identity", fields) and found.startswith(message), found
    # Computed all the same where asked: one bit of one weight moves the numbers, a template does not.
    verdict, found, result = receipts.verdict(whole, "--despite-identity", model=bit)
    assert verdict == "different" and result["first_difference"]["step"] >= 0, found
    despite = ["--despite-identity", "--chat-template", template]
    assert receipts.verdict(whole, *despite, model=same, status=0)[0] == "equal"


def test_free_mode_gives_no_receipts_and_verifies_none(receipts):
    """The control: the same request summed in another order is found to differ, at its first step."""
    file, _ = receipts.make("made.jsonl", REQUESTS, "--numerics", "fma32")
    refused = receipts.folder / "none.jsonl"
    error = receipts.error(
        *["generate", "-m", FIXTURE_MODELS / "llama3", "--token-ids", "1 2", "--mode", "free"],
        *["--receipt", refused, "--key", receipts.key],
    )
    assert "mode free gives no receipts" in error and not refused.exists()
    free = ["--mode", "free", "--numerics", "fma32"]
    report = receipts.verify(file, *free, status=1)
    assert {result["verdict"] for result in report["results"]} == {"other_identity"}
    report = receipts.verify(file, *free, "--despite-identity", "--threads", 3, "--beside", 3, status=1)
    assert {result["verdict"] for result in report["results"]} == {"different"}
    for result in report["results"]:
        assert result["first_difference"]["step"] >= 0
    steps = {result["first_difference"]["step"] for result in report["results"]}
    assert max(steps) < 60


def test_receipts_of_hashes_need_the_request(receipts):
    file, answers = receipts.make("made.jsonl", REQUESTS, "--receipt-content", "hashes")
    secret = json.dumps(answers[0]["prompt_token_ids"], separators=(",", ":")).encode()
    for line in file.read_text().splitlines():
        assert secret not in base64.b64decode(json.loads(line)["payload"])
    report = receipts.verify(file, status=2)
    assert {result["verdict"] for result in report["results"]} == {"no_request"}
    assert receipts.verify(file, "--answers", receipts.folder / "made.jsonl.answers")["equal"] == 4
    assert receipts.verify(file, "--signature-only")["signed"] == 4


def test_scores_have_receipts(receipts):
    requests = [{"prompt": [5, 6, 7, 8], "golden_token_ids": [9, 10]}, {"prompt": list(range(4, 30))}]
    file, answers = receipts.make("made.jsonl", requests, command="score")
    report = receipts.verify(file)
    assert report["equal"] == 2
    assert [result["output_tokens"] for result in report["results"]] == [2, 0]


def test_receipts_change_no_answer_and_go_on_where_a_run_stopped(receipts):
    file, answers = receipts.make("made.jsonl", REQUESTS)
    plain = receipts.folder / "plain.jsonl"
    requests = receipts.folder / "made.jsonl.requests"
    receipts.run("generate", "-m", FIXTURE_MODELS / "llama3", "--in", requests, "--out", plain)
    with_receipts = receipts.folder / "made.jsonl.answers"
    assert plain.read_bytes() == with_receipts.read_bytes()
    # A run that ended in the middle of a line of each file.
    whole, kept = file.read_bytes(), with_receipts.read_bytes()
    cut = with_receipts.read_bytes().index(b"\n") + 1
    with_receipts.write_bytes(kept[: cut + 20])
    file.write_bytes(whole[: whole.index(b"\n") + 30])
    receipts.make("made.jsonl", REQUESTS)
    assert with_receipts.read_bytes() == kept
    report = receipts.verify(file)
    assert [result["id"] for result in report["results"]] == ["drawn", "greedy", "scored", "scored"]
    assert report["equal"] == 4
    # A file of something else is left alone.
    model = receipts.folder / "model.bin"
    model.write_bytes(b"weights")
    options = ["--receipt", model, "--key", receipts.key]
    error = receipts.error("generate", "-m", FIXTURE_MODELS / "llama3", "--token-ids", "1", *options)
    assert "holds something else than receipts" in error and model.read_bytes() == b"weights"


def test_one_prompt(receipts):
    file = receipts.folder / "one.jsonl"
    prompt = ["generate", "-m", FIXTURE_MODELS / "llama3", "--token-ids", "4 5 6", "--max-tokens", 5, "--seed", 1]
    with_receipt = receipts.run(*prompt, "--receipt", file, "--key", receipts.key)
    assert with_receipt.stdout == receipts.run(*prompt).stdout
    assert receipts.verify(file)["verified"]
    spread = receipts.folder / "spread.json"
    spread.write_text(json.dumps(json.loads(file.read_text()), indent=2))
    assert receipts.verify(spread)["verified"]
    said = receipts.run("verify", file, "-m", FIXTURE_MODELS / "llama3").stdout.decode()
    assert "equal: every step" in said and "no signature was checked" in said
    assert "go together" in receipts.error(*prompt, "--receipt", file)
    assert "is a public key" in receipts.error(*prompt, "--receipt", file, "--key", receipts.public)


def test_keys(receipts):
    assert stat.S_IMODE(receipts.key.stat().st_mode) == 0o600
    before = receipts.key.read_bytes()
    assert "never overwritten" in receipts.error("keygen", "--out", receipts.key)
    assert receipts.key.read_bytes() == before
    assert "--out" in receipts.error("keygen")
    made = json.loads(receipts.run("keygen", "--out", receipts.folder / "b.key", "--json").stdout)
    der = subprocess.run(
        ["openssl", "pkey", "-pubin", "-in", made["public_key"], "-outform", "DER"], capture_output=True, check=True
    ).stdout
    digest = subprocess.run(["openssl", "dgst", "-sha256", "-r"], input=der, capture_output=True, check=True).stdout
    assert digest.decode().split()[0] == made["key_id"]


def test_openssl_verifies_a_receipt(receipts):
    """What docs/receipts.md says: the signed bytes are the DSSE encoding of type and payload."""
    file, _ = receipts.make("made.jsonl", ONE)
    envelope = json.loads(file.read_text())
    payload, kind = base64.b64decode(envelope["payload"]), envelope["payloadType"].encode()
    signed = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    (receipts.folder / "signed").write_bytes(signed)
    (receipts.folder / "sig").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    command = ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", receipts.public, "-sigfile", "sig"]
    done = subprocess.run([*command, "-in", "signed"], cwd=receipts.folder, capture_output=True)
    assert done.returncode == 0, done.stderr
    (receipts.folder / "signed").write_bytes(signed + b" ")
    assert subprocess.run([*command, "-in", "signed"], cwd=receipts.folder, capture_output=True).returncode != 0
