#!/usr/bin/env python3
"""docs/adopt.md, followed to the letter in an empty folder with nothing but an installed Tapeback: every file that it
shows is written, every command that it shows is run, and prints what it says."""
import os
import pathlib
import re
import sys
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "build")]
import ReadmeTest
import ScriptTest

FILE = re.compile(r"^```\w+ (\S+\.\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def files(text):
    return dict(FILE.findall(text))


def commands(text):
    return text.replace("```console adopt\n", "```console\n")


class Page(unittest.TestCase):
    def test_as_it_stands(self):
        text = (ScriptTest.ROOT / "docs" / "adopt.md").read_text()
        with tempfile.TemporaryDirectory() as scratch:
            prefix, folder = pathlib.Path(scratch) / "prefix", pathlib.Path(scratch) / "folder"
            folder.mkdir()
            complaints, _ = ReadmeTest.check(
                f"```console\n$ cmake --install {ScriptTest.BUILD} --prefix {prefix} > install.log\n```\n",
                dict(os.environ), scratch)
            self.assertEqual(complaints, [])
            for name, content in files(text).items():
                (folder / name).write_text(content)
            self.assertEqual(set(os.listdir(folder)), {"tally.yaml", "tally.c", "exercise.c", "importer.cpp",
                                                       "CMakeLists.txt", "board.log"})
            environment = {key: value for key, value in os.environ.items() if not key.startswith(("TAPEBACK_", "TB_"))}
            environment.update(PATH=f"{prefix / 'bin'}:{os.environ['PATH']}", CMAKE_PREFIX_PATH=str(prefix),
                               CMAKE_GENERATOR="Ninja", NO_COLOR="1")
            complaints, count = ReadmeTest.check(commands(text), environment, folder)
            self.assertEqual(complaints, [], "\n\n".join(complaints))
            self.assertGreaterEqual(count, 12)

    def test_the_importer_is_short(self):
        text = (ScriptTest.ROOT / "docs" / "adopt.md").read_text()
        self.assertLess(len(files(text)["importer.cpp"].splitlines()), 150)

    def test_what_is_wrong_is_noticed(self):
        page = "```c a.c\nint main;\n```\n```console adopt\n$ cat a.c\nint main(void);\n```\n"
        self.assertEqual(files(page), {"a.c": "int main;\n"})
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "a.c").write_text(files(page)["a.c"])
            self.assertEqual(len(ReadmeTest.check(commands(page), dict(os.environ), folder)[0]), 1)


if __name__ == "__main__":
    del ReadmeTest.Checker, ReadmeTest.Documents  # Theirs are run by themselves.
    ScriptTest.main()
