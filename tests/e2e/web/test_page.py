"""The page: its bundle is what its sources give, and it does in headless Chromium what it promises.

The tests themselves are JavaScript (node's own runner); each file of them is one test here.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
WEB = ROOT / "web"
sys.path.insert(0, str(ROOT / "tests" / "support"))

RENDER = pathlib.Path(os.environ.get("EADEM_BUILD", ROOT / "build")) / "tests" / "e2e" / "web" / "render_report"
HOSTILE = "</script><script>broken=1</script><!--<script> <img src=x onerror=broken=1> \"'& <b>"

from serving import Server  # noqa: E402 (the path comes first)


def run(command, timeout=600, env=None, cwd=WEB):
    environment = {**os.environ, **(env or {})}
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment, cwd=cwd)
    assert done.returncode == 0, f"{command}\n{done.stdout[-20000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="session")
def modules():
    """What web/package-lock.json pins must be there: `./dev test` installs it."""
    lock, installed = WEB / "package-lock.json", WEB / "node_modules" / "installed.json"
    assert installed.exists() and installed.read_bytes() == lock.read_bytes(), (
        "web/node_modules is missing or old: ./dev test installs it, or `npm ci --ignore-scripts` in web/ and "
        "`cp package-lock.json node_modules/installed.json`"
    )


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_bundle_is_what_the_sources_give(modules, tmp_path):
    run(["node", "build.mjs", str(tmp_path)])
    built, committed = files_of(tmp_path), files_of(WEB / "dist")
    assert sorted(built) == sorted(committed) and "report/report.html" in built
    for name, content in built.items():
        assert content == committed[name], f"web/dist/{name} is old: run `npm ci && npm run build` in web/"
    assert sum(map(len, built.values())) < 200_000


def test_bundle_check_sees_a_changed_source(modules, tmp_path):
    """The negative control: another source gives another bundle."""
    copy = tmp_path / "web"
    shutil.copytree(WEB, copy, ignore=shutil.ignore_patterns("node_modules", "dist"))
    (copy / "node_modules").symlink_to(WEB / "node_modules")
    source = copy / "src" / "format.js"
    source.write_text(source.read_text().replace(" ms`", " msec`"))
    run(["node", "build.mjs", str(tmp_path / "out")], cwd=copy)
    for name in ("page.js", "report/report.html"):
        assert (tmp_path / "out" / name).read_bytes() != (WEB / "dist" / name).read_bytes()


def run_tests(name, env=None):
    output = run(["node", "--test", str(HERE / name)], timeout=2400, env=env)
    passed = [line for line in output.splitlines() if line.startswith("# pass ")]
    assert passed and int(passed[0].split()[-1]) > 0, output
    return int(passed[0].split()[-1])


def test_computations(modules):
    assert run_tests("units.test.mjs") >= 13


def test_in_chromium(modules):
    assert run_tests("page.test.mjs") >= 25


def test_before_the_real_server(modules, smollm2, tmp_path):
    with Server(smollm2, "--served-model-name", "smollm2-135m", folder=tmp_path) as server:
        assert run_tests("server.test.mjs", {"EADEM_URL": server.url}) >= 8


def hostile(value, depth=0):
    """The document with markup for every text and in every name that the schema leaves open."""
    if isinstance(value, dict):
        return {key: part if key == "kind" else hostile(part, depth + 1) for key, part in value.items()} | (
            {HOSTILE: HOSTILE} if depth == 1 else {}
        )
    if isinstance(value, list):
        return [hostile(part, depth + 1) for part in value]
    return HOSTILE if isinstance(value, str) else value


def test_reports_in_chromium(modules, tmp_path):
    for path in (HERE / "reports").glob("*.json"):
        document = json.loads(path.read_text())
        contents = {"": document, "hostile-": hostile(document), "bare-": {"kind": document["kind"]}}
        for name, content in contents.items():
            (tmp_path / (name + path.name)).write_text(json.dumps(content))
    run([str(RENDER), *map(str, sorted(tmp_path.glob("*.json")))])
    assert run_tests("reports.test.mjs", {"EADEM_REPORTS": str(tmp_path)}) >= 17
