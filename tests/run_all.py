#!/usr/bin/env python3
"""Runs every test of the repository and counts what really ran.

`./dev test` builds first and then calls this. A suite is one gtest executable (natively, or for Arm under the emulator
that CMake put before it), one file of Python tests, the tests of the Rust crate, or one fuzz target. Each suite
prints one line; the output of a failed one follows it. A suite that crashes, times out, or runs no test at all counts
as a failure: nothing passes by not running.

The last line is `N passed, N failed`, with `, N skipped` where some were; the exit status is 1 if anything failed.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD_FOLDERS = {
    "release": "build",
    "dev": "build-dev",
    "asan": "build-asan",
    "tsan": "build-tsan",
    "aarch64": "build-aarch64",
    "fuzz": "build-fuzz",
}
FUZZ_SECONDS, LONG_FUZZ_SECONDS = 10, 300
EMULATOR_SLOWDOWN = 4
# The suites that take longest, in this order, begin first, so that none of them is left alone at the end.
SLOWEST = (
    "python/e2e/invariance/test_invariance",
    "arm bits/test_engine_device",
    "arm bits/test_engine_invariance",
    "arm unit/test_allocations",
    "python/e2e/invariance/test_invariance_arm",
    "python/e2e/server/test_faults",
    "python/e2e/black_box/test_black_box",
    "python/e2e/web/test_page",
    "python/e2e/guide/test_guide",
    "python/e2e/server/test_lm_eval",
    "python/e2e/server/test_router",
    "python/e2e/readme/test_roles",
    "python/e2e/readme/test_readme",
    "python/accuracy/test_accuracy",
    "arm bits/test_attention",
    "arm bits/test_plans",
    "arm unit/test_speculation",
    "arm bits/test_seeded_faults",
    "arm bits/test_linear",
    "python/e2e/invariance/test_n",
)
FAILED_OUTPUT_LINES = 80


@dataclass
class Outcome:
    """What one suite did; `problem` says why it failed where no single test did."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    problem: str = ""
    output: str = ""
    seconds: float = 0.0


@dataclass
class Suite:
    """One command, and how to count what it ran: `kind` selects the counter, `report` is the file with the counts."""

    name: str
    kind: str
    command: list
    timeout: float
    report: pathlib.Path = None
    environment: dict = field(default_factory=dict)
    folder: pathlib.Path = ROOT


def ctest_list(folder):
    """The tests that CMake registered in a build folder: (name, command, labels, timeout)."""
    listing = subprocess.run(
        ["ctest", "--test-dir", str(folder), "--show-only=json-v1"], capture_output=True, text=True, check=True
    )
    for test in json.loads(listing.stdout)["tests"]:
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        yield (
            test["name"],
            test.get("command", []),
            properties.get("LABELS", []),
            float(properties.get("TIMEOUT", 600)),
            properties,
        )


def build_suites(preset, options, reports):
    """The suites of one build preset: gtest executables, or libFuzzer targets for the preset `fuzz`."""
    folder = ROOT / BUILD_FOLDERS[preset]
    where = {"release": "", "aarch64": "arm "}.get(preset, preset + " ")
    for name, command, labels, timeout, properties in ctest_list(folder):
        if "device" in labels or ("long" in labels and not options.long):
            continue
        kind = next((label for label in labels if label in ("unit", "bits", "accuracy", "e2e", "long", "fuzz")), "unit")
        if kind == "fuzz":
            yield fuzz_suite(name, command, options, reports)
            continue
        report = reports / f"{preset}-{name}.json"
        if preset != "release":
            timeout *= EMULATOR_SLOWDOWN
        environment = {"GTEST_OUTPUT": f"json:{report}", "GTEST_COLOR": "no"}
        if preset == "aarch64" and not options.long:
            environment["EADEM_BRIEF"] = "1"  # tests/support/brief.h
        for assignment in properties.get("ENVIRONMENT", []):
            key, _, value = assignment.partition("=")
            environment[key] = value
        yield Suite(f"{where}{kind}/{name}", "gtest", command, timeout, report, environment)


def fuzz_suite(name, command, options, reports):
    """A run over the committed seeds; new inputs go to a scratch folder, and a crashing one stays there."""
    seconds = LONG_FUZZ_SECONDS if options.long else FUZZ_SECONDS
    scratch = reports / f"fuzz-{name}"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    flags = [
        # The short run tries the same inputs each time; only long ones look for new ones.
        f"-seed={0 if options.long else 1}",
        f"-max_total_time={seconds}",
        "-timeout=60",
        "-rss_limit_mb=3000",
        "-print_final_stats=1",
        "-verbosity=0",
        f"-artifact_prefix={scratch}/",
    ]
    # libFuzzer looks for leaks after each input; at exit it would report an allocation of its own.
    environment = {"ASAN_OPTIONS": "leak_check_at_exit=0"}
    run = [command[0], *flags, str(scratch), *command[1:]]
    return Suite(f"fuzz/{name}", "fuzz", run, seconds + 600, environment=environment)


def interpreter_of(file):
    """Tests of the server run beside the clients that they drive; those have a folder of their own (`./dev setup`)."""
    clients = ROOT / "tests" / "e2e" / "server"
    return str(ROOT / ".venv-clients" / "bin" / "python") if clients in file.parents else sys.executable


def python_suites(options, reports):
    """One suite per test_*.py file, so that long ones run side by side."""
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        name = file.relative_to(ROOT)
        label = name.relative_to("tests").with_suffix("")
        report = reports / f"pytest-{str(label).replace('/', '-')}.xml"
        command = [interpreter_of(file), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += [f"--junitxml={report}", str(name)]
        if not options.long:
            command += ["-m", "not long"]
        yield Suite(f"python/{label}", "pytest", command, 14400 if options.long else 2400, report)


def rust_suite():
    """The Rust crate's tests, in the profile of the build; with CARGO_TARGET_DIR set, nothing is compiled twice."""
    manifest = ROOT / "rust" / "text" / "Cargo.toml"
    if not manifest.exists():
        return []
    command = ["cargo", "test", "--quiet", "--locked", "--release", "--manifest-path", str(manifest)]
    return [Suite("rust/text", "cargo", command, 1800)]


def count_gtest(suite, outcome, status):
    try:
        report = json.loads(suite.report.read_text())
    except (OSError, ValueError):
        outcome.problem = outcome.problem or f"wrote no report (exit status {status})"
        return
    for group in report.get("testsuites", []):
        for test in group.get("testsuite", []):
            if test.get("failures"):
                outcome.failed += 1
            elif test.get("result") == "SKIPPED":
                outcome.skipped += 1
            elif test.get("status") == "RUN":
                outcome.passed += 1
            else:
                outcome.skipped += 1


def count_pytest(suite, outcome, status):
    try:
        tree = ElementTree.parse(suite.report)
    except (OSError, ElementTree.ParseError):
        outcome.problem = outcome.problem or f"wrote no report (exit status {status})"
        return
    for test in tree.iter("testcase"):
        tags = {child.tag for child in test}
        if tags & {"failure", "error"}:
            outcome.failed += 1
        elif "skipped" in tags:
            outcome.skipped += 1
        else:
            outcome.passed += 1


def count_cargo(_suite, outcome, _status):
    for passed, failed, ignored in re.findall(
        r"test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", outcome.output
    ):
        outcome.passed += int(passed)
        outcome.failed += int(failed)
        outcome.skipped += int(ignored)


def count_fuzz(_suite, outcome, status):
    runs = re.search(r"stat::number_of_executed_units:\s+(\d+)", outcome.output)
    if status == 0 and runs and int(runs.group(1)) > 0:
        outcome.passed += 1


COUNTERS = {"gtest": count_gtest, "pytest": count_pytest, "cargo": count_cargo, "fuzz": count_fuzz}


def run_process(suite):
    """Runs a suite's command in a process group of its own: (exit status or None where it ran out of time, output)."""
    environment = {**os.environ, **suite.environment}
    process = subprocess.Popen(
        [str(part) for part in suite.command],
        cwd=suite.folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=suite.timeout)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return None, output


def run_suite(suite):
    """Runs a suite and counts; no count at all, or a bad exit status without a failed test, is one failure."""
    outcome = Outcome()
    if suite.report:
        suite.report.unlink(missing_ok=True)
    started = time.monotonic()
    try:
        status, outcome.output = run_process(suite)
    except OSError as error:
        status, outcome.problem = -1, f"could not start: {error}"
    outcome.seconds = time.monotonic() - started
    if status is None:
        outcome.problem = f"ran longer than {suite.timeout:.0f} s"
    COUNTERS[suite.kind](suite, outcome, status)
    deselected = suite.kind == "pytest" and status == 5 and re.search(r"\d+ deselected", outcome.output)
    if status != 0 and not outcome.failed and not outcome.problem and not deselected:
        outcome.problem = f"exit status {status}"
    if not outcome.problem and not deselected and outcome.passed + outcome.failed + outcome.skipped == 0:
        outcome.problem = "ran no test"
    if outcome.problem:
        outcome.failed += 1
    return outcome


def counts(outcome):
    text = f"{outcome.passed} passed, {outcome.failed} failed"
    return text + (f", {outcome.skipped} skipped" if outcome.skipped else "")


def print_line(suite, outcome):
    mark = "FAIL" if outcome.failed else "ok"
    problem = f"  ({outcome.problem})" if outcome.problem else ""
    print(f"{mark:4}  {suite.name:44} {outcome.seconds:7.1f} s  {counts(outcome)}{problem}", flush=True)
    if outcome.failed:
        for line in outcome.output.rstrip().splitlines()[-FAILED_OUTPUT_LINES:]:
            print(f"      | {line}", flush=True)


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description="Runs every test and prints `N passed, N failed`.")
    parser.add_argument(
        "--long", action="store_true", help="also the tests that take minutes: all floats, the whole pairwise array"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="only suites whose name contains TEXT")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="suites to run at once")
    parser.add_argument(
        "--build", action="append", default=[], choices=BUILD_FOLDERS, help="a preset that was built (default: release)"
    )
    parser.add_argument(
        "--build-failed", action="append", default=[], help="a preset that could not be built; counts as a failure"
    )
    parser.add_argument("--list", action="store_true", help="print the suites, run nothing")
    return parser.parse_args(arguments)


def collect_suites(options):
    reports = ROOT / "build" / "test-reports"
    reports.mkdir(parents=True, exist_ok=True)
    suites = []
    for preset in options.build or ([] if options.build_failed else ["release"]):
        suites += build_suites(preset, options, reports)
    suites += python_suites(options, reports)
    suites += rust_suite()
    suites.sort(key=lambda suite: SLOWEST.index(suite.name) if suite.name in SLOWEST else len(SLOWEST))
    return [suite for suite in suites if options.only in suite.name]


def main(arguments=None):
    options = parse_arguments(arguments)
    suites = collect_suites(options)
    if options.list:
        print("\n".join(suite.name for suite in suites))
        return 0
    total = Outcome()
    for preset in options.build_failed:
        print(f"FAIL  build {preset}: did not build", flush=True)
        total.failed += 1
    started = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, options.jobs)) as pool:
        running = {pool.submit(run_suite, suite): suite for suite in suites}
        for future in concurrent.futures.as_completed(running):
            outcome = future.result()
            print_line(running[future], outcome)
            total.passed += outcome.passed
            total.failed += outcome.failed
            total.skipped += outcome.skipped
    if not suites:
        print("FAIL  no suite matches", flush=True)
        total.failed += 1
    print(f"{len(suites)} suites in {time.monotonic() - started:.0f} s")
    print(counts(total), flush=True)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
