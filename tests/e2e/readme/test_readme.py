"""What the README shows must work as it stands there: its commands, its table, its example of a batch."""

import json
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text()
# The same command on a part of its work: what whole runs find is other suites' business.
SMALLER = {
    "accept": ["--cell", "batch.size"],
    "gate": ["--category", "near-tie"],
    "near-tie": ["--max-tokens", "4", "--runs", "1:8"],
    "cost": ["--pairs", "2", "--prompt-tokens", "16", "--max-tokens", "4"],
}
PROGRAM = pathlib.Path(os.environ.get("EADEM", ROOT / "build" / "eadem"))


def commands():
    """The lines of the README that call the program, without the prompt sign and the remark at the end."""
    lines = re.findall(r"^    (?:\$ )?(build/eadem .*)$", README, re.MULTILINE)
    return [re.sub(r"\s{2,}#.*$", "", line) for line in lines]


def run(line, folder):
    """A line of the README, in a folder that has `build/eadem` as the README's reader has it."""
    return subprocess.run(line, shell=True, cwd=folder, capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder as after `./dev build`, with the model in the cache and the file of questions."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "build").mkdir()
    (folder / "build" / "eadem").symlink_to(PROGRAM)
    pulled = run("build/eadem pull smollm2-135m", folder)
    assert pulled.returncode == 0, pulled.stderr
    questions = re.search(r"^    \$ cat questions.jsonl\n((?:    \{.*\}\n)+)", README, re.MULTILINE).group(1)
    (folder / "questions.jsonl").write_text("".join(line[4:] + "\n" for line in questions.splitlines()))
    return folder


def test_table_names_the_commands_that_there_are(folder):
    listed = re.findall(r"^  (\w[\w-]*) {3,}", run("build/eadem --help", folder).stdout, re.MULTILINE)
    documented = re.findall(r"^\| `([\w-]+)[^|]*\|", README, re.MULTILINE)
    assert sorted(listed) == sorted(documented)
    for name in listed:
        shown = run(f"build/eadem {name} --help", folder)
        assert shown.returncode == 0 and "Example" in shown.stdout


def test_commands(folder):
    """In the order of the page: the batch is answered before it is replayed."""
    ran = [line for line in commands() if not re.search(" (chat|pull|serve) ", line)]
    assert len(ran) >= 6
    hashes = []
    for line in ran:
        done = run(" ".join([line, *SMALLER.get(line.split()[1], [])]), folder)
        assert done.returncode == 0, line + "\n" + done.stderr
        if "sha256sum" in line:
            hashes.append(done.stdout)
    assert len(hashes) == 2 and hashes[0] == hashes[1]
    assert hashes[0].split()[0] != "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "not of nothing"
    answers = [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]
    assert [answer["id"] for answer in answers] == ["a", "b", "b"]


def test_serve(folder):
    """On a free port instead of the one that is written there."""
    serve = next(line for line in commands() if " serve " in line).replace("--port 8000", "--port 0")
    asked = re.search(r"^    (curl http://127.0.0.1:8000/.*)$", README, re.MULTILINE).group(1)
    server = subprocess.Popen("exec " + serve, shell=True, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        address = re.fullmatch(r"listening on (http://127.0.0.1:\d+)\n", server.stdout.readline()).group(1)
        done = run(asked.replace("http://127.0.0.1:8000", address), folder)
        # It is drawn without a seed: that a text is empty is possible, that nothing was drawn is not.
        assert 1 <= json.loads(done.stdout)["usage"]["completion_tokens"] <= 8, done.stdout + done.stderr
        server.terminate()
        assert server.wait(120) == 0
    finally:
        server.kill()
        server.wait()


def test_replay_notices_a_changed_answer(folder):
    """The control: were a token another one, replay would say so."""
    lines = (folder / "answers.jsonl").read_text().splitlines()
    first = json.loads(lines[0])
    first["token_ids"][2] ^= 1
    (folder / "changed.jsonl").write_text("\n".join([json.dumps(first), *lines[1:]]) + "\n")
    assert run("build/eadem replay answers.jsonl", folder).returncode == 0
    assert run("build/eadem replay changed.jsonl", folder).returncode == 1
