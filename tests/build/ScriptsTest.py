#!/usr/bin/env python3
"""tools/run-tests and the test mains: nothing that did not pass may look as if it had."""
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import ScriptTest

FIXTURE = ScriptTest.BUILD / "bin" / "tests" / "fixtures" / "CountingFixture"


def run(*command, **options):
    return subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **options)


def last_line(result):
    return result.stdout.splitlines()[-1]


class TestMain(unittest.TestCase):
    """tests/TestMain.cpp"""

    def test_counts(self):
        result = run(FIXTURE, "-tce=crashes")
        self.assertEqual(last_line(result), "CountingFixture: 1 passed, 3 failed, 2 skipped")
        self.assertEqual(result.returncode, 1)
        self.assertIn("skipped: skips itself: there is no such device\n", result.stdout)
        self.assertIn("failed: checks nothing: it checks nothing\n", result.stdout)
        self.assertIn("skipped: is marked: marked doctest::skip()\n", result.stdout)

    def test_success(self):
        result = run(FIXTURE, "-tc=holds")
        self.assertEqual(result.returncode, 0)
        self.assertIn("CountingFixture: 1 passed, 0 failed", last_line(result))

    def test_nothing_ran(self):
        result = run(FIXTURE, "-tc=no such case", "--no-skip")
        self.assertEqual(result.returncode, 1)

    def test_crash_prints_no_counts(self):
        result = run(FIXTURE, "-tc=crashes")
        self.assertNotEqual(result.returncode, 0)
        self.assertNotIn("CountingFixture: ", result.stdout)


class RunTests(unittest.TestCase):
    """tools/run-tests, over a made-up build tree of shell scripts."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.tree = pathlib.Path(directory.name)
        self.listing = []

    def program(self, name, body, properties=""):
        path = self.tree / name
        path.write_text("#!/bin/sh\n" + body)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        self.listing.append(f'add_test({name} "{path}")\n' +
                            (f"set_tests_properties({name} PROPERTIES {properties})\n" if properties else ""))

    def run_tests(self, *arguments):
        (self.tree / "CTestTestfile.cmake").write_text("".join(self.listing))
        return run(ScriptTest.ROOT / "tools" / "run-tests", "--build-dir", self.tree, *arguments)

    def expect(self, result, line, code):
        self.assertEqual(last_line(result), line, result.stdout)
        self.assertEqual(result.returncode, code)

    def test_sum(self):
        self.program("a", "echo 'a: 3 passed, 0 failed, 0 skipped'\n")
        self.program("b", "echo 'skipped: case: no device'; echo 'b: 4 passed, 0 failed, 1 skipped'\n", "LABELS serial")
        result = self.run_tests()
        self.expect(result, "7 passed, 0 failed, 1 skipped", 0)
        self.assertIn("  case: no device\n", result.stdout)

    def test_failure(self):
        self.program("a", "echo why; echo 'a: 3 passed, 2 failed, 0 skipped'; exit 1\n")
        result = self.run_tests()
        self.expect(result, "3 passed, 2 failed, 0 skipped", 1)
        self.assertIn("    why\n", result.stdout)

    def test_failed_cases_are_named_at_the_end(self):
        self.program("a", f"{FIXTURE} -tce=crashes\n")
        self.program("b", "echo 'FAIL: test_one (a.B)'; echo 'b: 0 passed, 1 failed, 0 skipped'; exit 1\n")
        end = self.run_tests().stdout.split("\nFailed:\n")[1]
        self.assertRegex(end, r"(?m)^    does not hold \(\S+CountingFixture.cpp:\d+\)$")
        self.assertRegex(end, r"(?m)^    checks nothing: it checks nothing$")
        self.assertRegex(end, r"(?m)^    test_one \(a.B\)$")
        self.assertNotIn("    holds", end)

    def test_failure_with_exit_0(self):
        self.program("a", "echo 'a: 3 passed, 2 failed, 0 skipped'\n")
        self.expect(self.run_tests(), "3 passed, 2 failed, 0 skipped", 1)

    def test_exit_code_without_a_failed_case(self):
        self.program("a", "echo 'a: 3 passed, 0 failed, 0 skipped'; exit 1\n")
        self.expect(self.run_tests(), "3 passed, 1 failed, 0 skipped", 1)

    def test_sanitizer_fault(self):
        self.program("a", "echo 'a: 3 passed, 0 failed, 0 skipped'; exit 86\n")
        result = self.run_tests()
        self.expect(result, "3 passed, 1 failed, 0 skipped", 1)
        self.assertIn("sanitizer", result.stdout)

    def test_sanitizer_options(self):
        self.program("a", 'case "$ASAN_OPTIONS$UBSAN_OPTIONS$LSAN_OPTIONS$TSAN_OPTIONS" in\n'
                          "*exitcode=86*exitcode=86*exitcode=86*exitcode=86)\n"
                          "  echo 'a: 1 passed, 0 failed, 0 skipped';; esac\n")
        self.expect(self.run_tests(), "1 passed, 0 failed, 0 skipped", 0)

    def test_crash(self):
        self.program("a", "echo 'a: 3 passed, 0 failed, 0 skipped'; kill -SEGV $$\n")
        result = self.run_tests()
        self.expect(result, "3 passed, 1 failed, 0 skipped", 1)
        self.assertIn("SIGSEGV", result.stdout)

    def test_no_counts(self):
        self.program("a", "true\n")
        self.expect(self.run_tests(), "0 passed, 1 failed, 0 skipped", 1)

    def test_zero_counts(self):
        self.program("a", "echo 'a: 0 passed, 0 failed, 0 skipped'\n")
        self.expect(self.run_tests(), "0 passed, 1 failed, 0 skipped", 1)

    def test_no_programs(self):
        self.expect(self.run_tests(), "0 passed, 0 failed, 0 skipped", 1)

    def test_not_built(self):
        self.program("a", "true\n")
        (self.tree / "a").unlink()
        self.expect(self.run_tests(), "0 passed, 1 failed, 0 skipped", 1)

    def test_timeout_takes_the_children_too(self):
        # The child would hold a pipe open; and it must be gone afterwards.
        self.program("a", f"sleep 1000 & echo $! > {self.tree}/child; wait\n", "TIMEOUT 0.2")
        result = self.run_tests()
        self.expect(result, "0 passed, 1 failed, 0 skipped", 1)
        self.assertIn("timed out", result.stdout)
        child = pathlib.Path("/proc", (self.tree / "child").read_text().strip(), "stat")
        state = child.read_text().split()[2] if child.exists() else "gone"
        self.assertIn(state, ("gone", "Z", "X"))

    def test_name_filter(self):
        self.program("alpha", "echo 'alpha: 1 passed, 0 failed, 0 skipped'\n")
        self.program("beta", "echo 'beta: 1 passed, 0 failed, 0 skipped'\n")
        self.expect(self.run_tests("alp"), "1 passed, 0 failed, 0 skipped", 0)
        result = self.run_tests("gamma")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no test program matches 'gamma'", result.stdout)


class Fuzz(unittest.TestCase):
    """tools/fuzz, over made-up fuzzers."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.tree = pathlib.Path(directory.name)
        (self.tree / "bin" / "fuzz").mkdir(parents=True)
        (self.tree / "corpus" / "one").mkdir(parents=True)
        (self.tree / "corpus" / "one" / "seed").write_text("x")

    def expect(self, code, text, body=None, *arguments):
        if body is not None:
            fake(self.tree / "bin" / "fuzz", "fuzz-one", body)
        result = run(ScriptTest.ROOT / "tools" / "fuzz", "--build-dir", self.tree, "--corpus", self.tree / "corpus",
                     "--seconds", 1, *arguments)
        self.assertEqual(result.returncode, code, result.stdout)
        self.assertIn(text, result.stdout)

    def test_clean(self):
        self.expect(0, "one: 12 executions, nothing found", "echo stat::number_of_executed_units: 12")

    def test_finding(self):
        self.expect(1, "found something (exit code 77)", "echo stat::number_of_executed_units: 12; exit 77")

    def test_ran_nothing(self):
        self.expect(1, "ran nothing", "true")

    def test_works_on_a_copy_of_the_corpus(self):
        self.expect(1, "found something", 'for last; do :; done; rm "$last/seed" && exit 3')
        self.assertTrue((self.tree / "corpus" / "one" / "seed").exists())

    def test_no_corpus(self):
        (self.tree / "corpus" / "one" / "seed").unlink()
        self.expect(1, "no corpus", "echo stat::number_of_executed_units: 12")

    def test_no_fuzzers(self):
        self.expect(1, "no such fuzzers")

    def test_unknown_name(self):
        self.expect(1, "no such fuzzers", "echo stat::number_of_executed_units: 12", "two")


class MinnowCompare(unittest.TestCase):
    """tools/minnow-compare, over a made-up program."""

    def expect(self, code, text, body, seeds=30):
        with tempfile.TemporaryDirectory() as directory:
            os.makedirs(os.path.join(directory, "bin", "tests"))
            if body is not None:
                fake(os.path.join(directory, "bin", "tests"), "minnow-compare", body)
            result = run(ScriptTest.ROOT / "tools" / "minnow-compare", "--build", directory, "--seeds", seeds)
            self.assertEqual(result.returncode, code, result.stdout)
            self.assertIn(text, result.stdout)

    def test_agreement(self):
        self.expect(0, "30 seeds: 14 commands, 18 values compared, 0 seeds differ",
                    "echo minnow-compare: seeds 1 to 2: 7 commands, 9 values compared, 0 seeds differ")

    def test_difference(self):
        self.expect(1, "14 commands, 18 values compared, 2 seeds differ",
                    "echo minnow-compare: seeds 1 to 2: 7 commands, 9 values compared, 1 seeds differ; exit 1")

    def test_a_program_that_dies_or_contradicts_itself_has_compared_nothing(self):
        self.expect(1, "30 seeds: 0 commands, 0 values compared, 30 seeds differ", "kill -9 $$")
        self.expect(1, "0 values compared, 30 seeds differ",
                    "echo minnow-compare: seeds 1 to 2: 7 commands, 9 values compared, 0 seeds differ; exit 1")

    def test_nothing_to_run(self):
        self.expect(2, "nothing to run", None)
        self.expect(2, "nothing to run", "true", seeds=0)


class Setup(unittest.TestCase):
    """tools/setup, which a newcomer meets first."""

    def test_says_what_is_missing_without_root(self):
        with tempfile.TemporaryDirectory() as directory:
            fake(directory, "dpkg-query", "exit 1")
            fake(directory, "apt-get", "echo must not be called; exit 99")
            fake(directory, "id", "echo 1000")
            for tool in ("sed", "grep", "bash", "dirname"):
                os.symlink(f"/usr/bin/{tool}", os.path.join(directory, tool))
            environment = dict(os.environ, PATH=directory)
            result = run(ScriptTest.ROOT / "tools" / "setup", env=environment)
            self.assertEqual(result.returncode, 2, result.stdout)
            self.assertIn("needs root", result.stdout)
            self.assertIn("llvm-19-dev", result.stdout)
            result = run(ScriptTest.ROOT / "tools" / "setup", "--check", env=environment)
            self.assertEqual(result.returncode, 1, result.stdout)

    def test_uses_sudo_and_believes_only_dpkg(self):
        with tempfile.TemporaryDirectory() as directory:
            fake(directory, "dpkg-query", "exit 1")
            fake(directory, "apt-get", 'echo "apt-get $*"')
            fake(directory, "apt-cache", "exit 0")
            fake(directory, "sudo", 'echo "sudo"; exec "$@"')
            fake(directory, "id", "echo 1000")
            for tool in ("sed", "grep", "bash", "dirname", "env"):
                os.symlink(f"/usr/bin/{tool}", os.path.join(directory, tool))
            result = run(ScriptTest.ROOT / "tools" / "setup", env=dict(os.environ, PATH=directory))
            self.assertIn("sudo\napt-get", result.stdout)
            self.assertNotIn("update", result.stdout)
            self.assertEqual(result.returncode, 2, result.stdout)
            self.assertIn("still not installed", result.stdout)


def fake(directory, name, body):
    path = pathlib.Path(directory, name)
    path.write_text(f"#!/bin/bash\n{body}\n")
    path.chmod(0o755)


if __name__ == "__main__":
    ScriptTest.main()
