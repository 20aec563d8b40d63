"""The main of every test that is a Python script: unittest, with the closing line of tests/TestMain.cpp.

    import ScriptTest, unittest

    class SomeTest(unittest.TestCase): …

    if __name__ == "__main__":
        ScriptTest.main()

ROOT is the source tree, BUILD the build tree under test.
"""
import os
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("TAPEBACK_BINARY_DIR", ROOT / "build" / "release"))


def main():
    name = pathlib.Path(sys.argv[0]).stem
    result = unittest.main(exit=False, verbosity=2).result
    for test, reason in result.skipped:
        print(f"skipped: {test}: {reason}")
    # A test counts once, however many of its subtests failed; what fails in a class's set-up is no test, but counts.
    failed = len({getattr(test, "test_case", test).id() for test, _ in result.failures + result.errors})
    failed += len(result.unexpectedSuccesses)
    skipped = len(result.skipped)
    passed = max(0, result.testsRun - failed - skipped)
    if not result.testsRun and not failed:
        print("failed: no test ran")
    sys.stderr.flush()
    print(f"{name}: {passed} passed, {failed} failed, {skipped} skipped", flush=True)
    sys.exit(0 if result.testsRun and not failed else 1)
