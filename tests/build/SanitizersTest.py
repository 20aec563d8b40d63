#!/usr/bin/env python3
"""A sanitizer's fault exits with 86, never with a code of ours, whatever the environment says or does not say."""
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import ScriptTest

FIXTURE = ScriptTest.BUILD / "bin" / "tests" / "fixtures" / "FaultFixture"
SANITIZERS = os.environ["TAPEBACK_SANITIZE"].split(",")
FAULTS = {"address": ["heap", "leak"], "undefined": ["integer"], "thread": ["race"]}


class Sanitizers(unittest.TestCase):
    def test_faults_exit_86(self):
        self.assertTrue(SANITIZERS)
        environment = {key: value for key, value in os.environ.items() if not key.endswith("SAN_OPTIONS")}
        for sanitizer in SANITIZERS:
            for fault in FAULTS[sanitizer]:
                with self.subTest(fault):
                    result = subprocess.run([FIXTURE, fault], env=environment, stdin=subprocess.DEVNULL,
                                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                    self.assertEqual(result.returncode, 86, result.stdout)


if __name__ == "__main__":
    ScriptTest.main()
