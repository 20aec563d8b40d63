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
    failed = len({test for test, _ in result.failures + result.errors}) + len(result.unexpectedSuccesses)
    skipped = len(result.skipped)
    passed = result.testsRun - failed - skipped
    if result.testsRun == 0:
        print("failed: no test ran")
    sys.stderr.flush()
    print(f"{name}: {passed} passed, {failed} failed, {skipped} skipped", flush=True)
    sys.exit(0 if result.testsRun and not failed else 1)
