"""The pages for auditors, operators and CI engineers: their commands run as they stand there, with little work each."""

import re
import shlex
import subprocess

import pytest
from test_readme import PROGRAM, README, ROOT, SMALLER

ROLES = ("for-auditors", "for-operators", "for-ci")
FEWEST = {"for-auditors": 5, "for-operators": 6, "for-ci": 5}


def commands(page):
    """Those that can be run: with a model, against no server."""
    lines = re.findall(r"^    (eadem .*)$", (ROOT / "docs" / f"{page}.md").read_text(), re.MULTILINE)
    return [shlex.split(line) for line in lines]


def run(words, folder):
    return subprocess.run([str(PROGRAM), *words], cwd=folder, capture_output=True, text=True, timeout=900)


@pytest.fixture
def folder(tmp_path, smollm2):
    """What the pages take as given: the questions of the README, and answers of last week."""
    questions = re.search(r"^    \$ cat questions.jsonl\n((?:    \{.*\}\n)+)", README, re.MULTILINE).group(1)
    (tmp_path / "questions.jsonl").write_text("".join(line[4:] + "\n" for line in questions.splitlines()))
    done = run(["generate", "-m", smollm2, "--in", "questions.jsonl", "--out", "before.jsonl"], tmp_path)
    assert done.returncode == 0, done.stderr
    for name in ("answers-before.jsonl", "other-answers.jsonl", "baseline-answers.jsonl"):
        (tmp_path / name).write_bytes((tmp_path / "before.jsonl").read_bytes())
    about = run(["info", "-m", smollm2, "--json"], tmp_path)
    assert about.returncode == 0, about.stderr
    (tmp_path / "about-before.json").write_text(about.stdout)
    return tmp_path


@pytest.mark.parametrize("page", ROLES)
def test_commands(page, folder, smollm2):
    ran = 0
    for _, name, *words in commands(page):
        target = words.pop() if len(words) > 1 and words[-2] == ">" else None
        words = [word for word in words if word != ">"]
        known = run([name, "--help"], folder).stdout
        for option in [word for word in words if word.startswith("--")]:
            assert re.search(rf"^ +(?:-\w, ?)?{option}\b", known, re.MULTILINE), f"{page}: {name} knows no {option}"
        if "MODEL" in words or "--endpoint" in words:
            continue
        words = [smollm2 if word == "smollm2-135m" else word for word in words]
        done = run([name, *words, *SMALLER.get(name, [])], folder)
        assert done.returncode == 0, f"{page}: {name} {words}\n{done.stdout}\n{done.stderr}"
        if target:
            (folder / target).write_text(done.stdout)
        ran += 1
    assert ran >= FEWEST[page]


def test_links_of_the_index_are_complete():
    """Every page of the folder stands in the index."""
    index = (ROOT / "docs" / "README.md").read_text()
    for page in sorted((ROOT / "docs").glob("*.md")):
        assert page.name == "README.md" or f"({page.name})" in index, page.name


def test_pages_are_one_page_each():
    for page in ROLES:
        assert len((ROOT / "docs" / f"{page}.md").read_text().split()) < 900, page
