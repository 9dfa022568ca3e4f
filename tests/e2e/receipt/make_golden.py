"""Writes golden/receipts.jsonl and golden/signer.pub: receipts of a small random model under each numerics, signed with
a key that is thrown away. Run it for a new numerics or a new format alone: the point of the file is that it stays.

    EADEM=build/eadem python3 tests/e2e/receipt/make_golden.py
"""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
MODEL = ROOT / "tests" / "accuracy" / "fixtures" / "models" / "llama3"
PROGRAM = os.environ.get("EADEM", str(ROOT / "build" / "eadem"))
REQUESTS = [
    {"id": "drawn", "prompt": [11, 40, 7, 95, 3, 61, 22, 9], "max_tokens": 24, "seed": 5, "temperature": 0.8},
    {"id": "likely", "prompt": list(range(3, 90)), "max_tokens": 8, "seed": 0, "temperature": 0, "logprobs": 3},
    {"id": "scored", "prompt": [1, 70, 3, 8, 2, 91], "max_tokens": 4, "seed": 2, "top_p": 0.9, "prompt_logprobs": 1},
]


def main():
    golden = HERE / "golden"
    golden.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        key, receipts, requests = folder / "key", folder / "receipts.jsonl", folder / "requests.jsonl"
        requests.write_text("".join(json.dumps(request) + "\n" for request in REQUESTS))
        subprocess.run([PROGRAM, "keygen", "--out", key], check=True, stdout=subprocess.DEVNULL)
        for numerics in ("fma32", "int8", "mma16"):
            command = [PROGRAM, "generate", "-m", MODEL, "--numerics", numerics, "--in", requests]
            command += ["--out", folder / f"{numerics}.jsonl", "--receipt", receipts, "--key", key]
            subprocess.run(command, check=True)
        shutil.copy(receipts, golden / "receipts.jsonl")
        shutil.copy(f"{key}.pub", golden / "signer.pub")


if __name__ == "__main__":
    main()
