"""The program with a fault in it: it knows its ten faults, the tests expect each of them, the shipped one has none."""

import os
import pathlib
import subprocess

from expectations import EXPECTED

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("EADEM", ROOT / "build" / "eadem")).parent
FAULTY = BUILD / "tests" / "e2e" / "seeded_faults" / "eadem-faulty"


def test_each_fault_is_expected_somewhere():
    refused = subprocess.run([FAULTY, "info"], capture_output=True, text=True, env={**os.environ, "EADEM_FAULT": "?"})
    assert refused.returncode == 2
    known = {line.split()[0] for line in refused.stderr.splitlines()[1:]}
    assert known == set(EXPECTED) - {"none"} and len(known) == 10
    for fault, (must_fail, must_pass) in EXPECTED.items():
        assert (fault == "none") != bool(must_fail)
        assert not set(must_fail) & set(must_pass)


def test_the_shipped_program_holds_no_fault():
    """Names of tests/support/faults are in the symbols of the faulty program, and in none of the shipped one."""

    def faults_in(program):
        listed = subprocess.run(["nm", "-C", program], capture_output=True, text=True, check=True).stdout
        assert "eadem::engine::StepRunner::launch" in listed
        return [line for line in listed.splitlines() if "eadem::faults" in line or "EADEM_FAULT" in line]

    assert faults_in(FAULTY)
    assert not faults_in(BUILD / "eadem")
    assert b"EADEM_FAULT" not in (BUILD / "eadem").read_bytes()
