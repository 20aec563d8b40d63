#!/usr/bin/env python3
"""tools/check-includes finds an include that points the wrong way, whoever wrote it."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import ScriptTest

LAYERS = """# A comment.
low:
middle: low        # and another
middle/inner: low/only.h
high: low middle
only capnp/ kj/: low
"""


class CheckIncludes(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        self.write("cmake/Layers.txt", LAYERS)
        self.write("low/Low.h", "#include <vector>\n")

    def write(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def check(self, code):
        result = subprocess.run([str(ScriptTest.ROOT / "tools" / "check-includes"), "--root", str(self.root)],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(result.returncode, code, result.stdout)
        return result.stdout

    def test_the_right_way(self):
        self.write("middle/M.cpp", '#include "middle/M.h"\n#include "low/Low.h"\n#include "llvm/Support/Error.h"\n')
        self.write("high/H.cpp", '#include "middle/M.h"\n  #  include "low/Low.h"\n')
        self.check(0)

    def test_the_wrong_way(self):
        self.write("low/L.cpp", '\n#include "middle/M.h"\n')
        self.assertIn('low/L.cpp:2: includes "middle/M.h": low may include: nothing else', self.check(1))

    def test_angle_brackets_do_not_hide_it(self):
        self.write("middle/M.h", "#include <high/H.h>\n")
        self.check(1)

    def test_sideways_into_a_subfolder(self):
        self.write("middle/M.h", '#include "middle/inner/I.h"\n')
        self.check(1)

    def test_single_header_allowed(self):
        self.write("middle/inner/I.cpp", '#include "low/only.h"\n')
        self.check(0)
        self.write("middle/inner/I.cpp", '#include "low/Low.h"\n')
        self.check(1)

    def test_product_never_includes_tests(self):
        self.write("high/H.cpp", '#include "tests/support/Skip.h"\n')
        self.check(1)

    def test_not_from_the_root(self):
        self.write("low/L.cpp", '#include "Low.h"\n')
        self.assertIn("path from the root", self.check(1))

    def test_outside_headers(self):
        self.write("low/L.cpp", "#include <capnp/message.h>\n")
        self.check(0)
        self.write("high/H.cpp", "#include <capnp/message.h>\n")
        self.assertIn("only low may include capnp/", self.check(1))

    def test_cycle_in_the_rules(self):
        self.write("cmake/Layers.txt", "low: high\nmiddle: low\nhigh: middle\n")
        self.assertIn("a cycle: ", self.check(2))

    def test_cycle_through_a_subfolder(self):
        self.write("cmake/Layers.txt", "low: high/sub\nhigh: low\n")
        self.check(2)

    def test_malformed_rules(self):
        self.write("cmake/Layers.txt", "low middle\n")
        self.check(2)

    def test_nothing_to_check(self):
        (self.root / "low" / "Low.h").unlink()
        self.check(1)

    def test_this_tree(self):
        self.root = ScriptTest.ROOT
        self.check(0)


if __name__ == "__main__":
    ScriptTest.main()
