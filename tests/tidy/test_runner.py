"""The test runner itself: whatever does not run, crashes or hangs must count as a failure."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import run_all  # noqa: E402

GTEST_REPORT = """{"testsuites": [{"testsuite": [
  {"status": "RUN", "result": "COMPLETED"},
  {"status": "RUN", "result": "SKIPPED"},
  {"status": "RUN", "result": "COMPLETED", "failures": [{"failure": "no"}]},
  {"status": "NOTRUN", "result": "SUPPRESSED"}]}]}"""
PYTEST_REPORT = """<testsuites><testsuite><testcase name="a"/><testcase name="b"><failure/></testcase>
<testcase name="c"><skipped/></testcase><testcase name="d"><error/></testcase></testsuite></testsuites>"""


class Runner(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.report = pathlib.Path(scratch.name) / "report"

    def run_python(self, kind, code, timeout=600):
        """Runs a suite whose command is a line of Python that may write the report at `argv[1]`."""
        command = [sys.executable, "-c", code, str(self.report)]
        return run_all.run_suite(run_all.Suite("sample", kind, command, timeout, self.report))

    def write_report(self, text, status):
        return f"import sys; open(sys.argv[1], 'w').write({text!r}); sys.exit({status})"

    def check(self, outcome, passed, failed, skipped, problem):
        self.assertEqual((outcome.passed, outcome.failed, outcome.skipped), (passed, failed, skipped))
        self.assertIn(problem, outcome.problem)
        self.assertEqual(bool(outcome.problem), bool(problem))

    def test_counts_gtest(self):
        self.check(self.run_python("gtest", self.write_report(GTEST_REPORT, 1)), 1, 1, 2, "")

    def test_counts_pytest(self):
        self.check(self.run_python("pytest", self.write_report(PYTEST_REPORT, 1)), 1, 2, 1, "")

    def test_counts_cargo(self):
        lines = "print('test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured')\n" * 2
        self.check(self.run_python("cargo", lines), 6, 0, 2, "")

    def test_crash_is_a_failure(self):
        self.check(self.run_python("gtest", "import os; os.abort()"), 0, 1, 0, "no report")

    def test_crash_after_the_report_is_a_failure(self):
        passing = '{"testsuites": [{"testsuite": [{"status": "RUN", "result": "COMPLETED"}]}]}'
        self.check(self.run_python("gtest", self.write_report(passing, 3)), 1, 1, 0, "exit status 3")

    def test_a_stale_report_is_not_counted(self):
        self.report.write_text(GTEST_REPORT)
        self.check(self.run_python("gtest", "pass"), 0, 1, 0, "no report")

    def test_no_test_is_a_failure(self):
        self.check(self.run_python("gtest", self.write_report('{"testsuites": []}', 0)), 0, 1, 0, "ran no test")
        self.check(self.run_python("cargo", "pass"), 0, 1, 0, "ran no test")
        self.check(self.run_python("fuzz", "pass"), 0, 1, 0, "ran no test")

    def test_hanging_is_a_failure(self):
        self.check(self.run_python("cargo", "import time; time.sleep(60)", timeout=0.5), 0, 1, 0, "longer than")

    def test_missing_program_is_a_failure(self):
        suite = run_all.Suite("sample", "gtest", ["/nonexistent/program"], 5, self.report)
        self.check(run_all.run_suite(suite), 0, 1, 0, "could not start")

    def test_fuzzing_counts_executions(self):
        self.check(self.run_python("fuzz", "print('stat::number_of_executed_units: 7')"), 1, 0, 0, "")
        crash = "print('stat::number_of_executed_units: 7'); import sys; sys.exit(77)"
        self.check(self.run_python("fuzz", crash), 0, 1, 0, "exit status 77")

    def test_the_slowest_suites_exist(self):
        for name in run_all.SLOWEST:
            *where, test = name.split("/")
            sort = "py" if where[0] == "python" else "cc"
            self.assertTrue(any(run_all.ROOT.glob(f"tests/{'/'.join(where[1:]) or '**'}/**/{test}.{sort}")), name)

    def test_line_of_counts(self):
        self.assertEqual(run_all.counts(run_all.Outcome(3, 1, 0)), "3 passed, 1 failed")
        self.assertEqual(run_all.counts(run_all.Outcome(3, 0, 2)), "3 passed, 0 failed, 2 skipped")


if __name__ == "__main__":
    unittest.main()
