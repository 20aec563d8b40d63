#!/usr/bin/env python3
"""The examples of README.md and of docs/ do what they say.

Fenced blocks marked `console` are run in order, per file in one temporary directory, with the build's programs on PATH
and the source tree as $TAPEBACK. A line that starts with `$ ` is a command (further lines after a trailing backslash);
what follows is what it prints, standard error included. `…` stands for anything within a line, a line of `…` alone for
any lines. A comment `# exit code N` after the command says how it exits; otherwise 0.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import ScriptTest

EXIT_CODE = re.compile(r"\s+# exit code (\d+)$")


class Example:
    def __init__(self, line, command):
        self.line = line
        self.command = command
        self.output = []


def examples(text):
    found, inside, continued = [], False, False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            inside = line.strip() == "```console"
            continued = False
        elif not inside:
            continue
        elif continued:
            found[-1].command += "\n" + line
            continued = line.endswith("\\")
        elif line.startswith("$ "):
            found.append(Example(number, line[2:]))
            continued = line.endswith("\\")
        elif found:
            found[-1].output.append(line)
        else:
            raise ValueError(f"line {number}: output before any command")
    return found


def matches(expected, actual):
    """Whether lines match, with the two wildcards."""
    pattern = ""
    for line in expected:
        if line.strip() == "…":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += r"[^\n]*?".join(re.escape(part) for part in line.rstrip().split("…")) + r"\n"
    actual = "".join(line.rstrip() + "\n" for line in actual)
    return re.fullmatch(pattern, actual) is not None


def check(text, environment, directory):
    """Runs the examples; returns complaints, and how many were run."""
    complaints = []
    found = examples(text)
    for example in found:
        wanted = EXIT_CODE.search(example.command)
        code = int(wanted[1]) if wanted else 0
        command = EXIT_CODE.sub("", example.command)
        result = subprocess.run(["bash", "-c", command], cwd=directory, env=environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240)
        if result.returncode != code:
            complaints.append(f"line {example.line}: '{command}' exits with {result.returncode}, not {code}:\n"
                              f"{result.stdout}")
        elif not matches(example.output, result.stdout.splitlines()):
            complaints.append(f"line {example.line}: '{command}' prints\n{result.stdout}instead of\n" +
                              "\n".join(example.output))
    return complaints, len(found)


class Checker(unittest.TestCase):
    """The comparison itself: it must notice."""

    def check(self, text):
        with tempfile.TemporaryDirectory() as directory:
            return check(text, dict(os.environ), directory)

    def test_right(self):
        complaints, count = self.check("Text\n```console\n$ echo one; echo two\none\ntwo\n$ true\n```\n$ false\n")
        self.assertEqual((complaints, count), ([], 2))

    def test_wrong_output(self):
        self.assertTrue(self.check("```console\n$ echo one\ntwo\n```\n")[0])

    def test_missing_and_additional_lines(self):
        self.assertTrue(self.check("```console\n$ echo one\n```\n")[0])
        self.assertTrue(self.check("```console\n$ true\none\n```\n")[0])

    def test_exit_codes(self):
        self.assertTrue(self.check("```console\n$ false\n```\n")[0])
        self.assertTrue(self.check("```console\n$ true # exit code 1\n```\n")[0])
        self.assertFalse(self.check("```console\n$ exit 3 # exit code 3\n```\n")[0])

    def test_wildcards(self):
        self.assertFalse(self.check("```console\n$ echo a 12 b\na … b\n```\n")[0])
        self.assertTrue(self.check("```console\n$ echo a 12 c\na … b\n```\n")[0])
        self.assertFalse(self.check("```console\n$ seq 9\n1\n…\n9\n```\n")[0])
        self.assertTrue(self.check("```console\n$ seq 9\n1\n…\n8\n```\n")[0])

    def test_other_blocks_are_left_alone(self):
        self.assertEqual(self.check("```sh\n$ false\n```\n"), ([], 0))

    def test_continued_lines_and_one_directory(self):
        text = "```console\n$ echo one \\\n  two > file\n```\nthen\n```console\n$ cat file\none two\n```\n"
        self.assertEqual(self.check(text), ([], 2))


class Documents(unittest.TestCase):
    def environment(self):
        return dict(os.environ, PATH=f"{ScriptTest.BUILD / 'bin'}:{os.environ['PATH']}", TAPEBACK=str(ScriptTest.ROOT),
                    NO_COLOR="1")

    def test_examples(self):
        total = 0
        for path in [ScriptTest.ROOT / "README.md", *sorted((ScriptTest.ROOT / "docs").rglob("*.md"))]:
            with self.subTest(path.name), tempfile.TemporaryDirectory() as directory:
                complaints, count = check(path.read_text(), self.environment(), directory)
                total += count
                self.assertEqual(complaints, [], "\n\n".join(complaints))
        self.assertGreater(total, 0, "no example was run")

    def test_links_within_the_tree(self):
        for path in ScriptTest.ROOT.rglob("*.md"):
            if "build" in path.relative_to(ScriptTest.ROOT).parts[:1]:
                continue
            for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
                self.assertTrue((path.parent / target).exists(), f"{path}: {target}")


if __name__ == "__main__":
    ScriptTest.main()
