#!/usr/bin/env python3
"""Installs the build, then does what a stranger would with nothing but the installation: builds programs, a tool and a
device model against it, and works the loop from record to bisect in it."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import ScriptTest

CONSUMER = pathlib.Path(__file__).resolve().parent / "consumer"
# Nothing of the build tree or of a recording may leak in.
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith(("TAPEBACK_", "TB_"))}


def run(*command, code=0, **environment):
    command = [str(word) for word in command]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, env={**ENVIRONMENT, **environment})
    if result.returncode != code:
        raise AssertionError(f"{' '.join(command)}: exit code {result.returncode}, not {code}:\n{result.stdout}")
    return result.stdout


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        scratch = pathlib.Path(directory.name)
        staged = scratch / "staged"
        run("cmake", "--install", ScriptTest.BUILD, "--prefix", staged)
        # Moved after the installation: no path of the prefix may be built in.
        cls.prefix = scratch / "moved here"
        staged.rename(cls.prefix)
        cls.scratch = scratch
        cls.build = scratch / "build"
        cls.tapeback = cls.prefix / "bin" / "tapeback"
        run("cmake", "-S", CONSUMER, "-B", cls.build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={cls.prefix}",
            "-DCMAKE_BUILD_TYPE=Release")
        run("cmake", "--build", cls.build)

    def test_layout(self):
        for path in ("bin/tapeback", "bin/edu-exercise", "lib/libtapeback.so", "lib/tapeback/tapeback-model-edu.so",
                     "include/tapeback.h", "include/tapeback_model.h", "include/tapeback/format/Packet.h",
                     "share/tapeback/descriptions/edu.yaml", "share/tapeback/descriptions/minnow.yaml",
                     "lib/cmake/tapeback/tapebackConfig.cmake"):
            self.assertTrue((self.prefix / path).exists(), path)

    def test_client_library_is_light(self):
        library = self.prefix / "lib" / "libtapeback.so"
        needed = run("objdump", "-p", library)
        needed = {line.split()[1] for line in needed.splitlines() if line.strip().startswith("NEEDED")}
        self.assertLessEqual(needed, {"libc.so.6", "ld-linux-x86-64.so.2"})
        exported = [line.split()[-1].split("@")[0] for line in run("nm", "-D", "--defined-only", library).splitlines()]
        self.assertTrue(exported)
        self.assertEqual([name for name in exported if not name.startswith("tb_")], [])

    def test_no_library_comes_from_the_current_folder(self):
        trap = self.scratch / "trap"
        trap.mkdir()
        seen = 0
        for program in sorted([*(ScriptTest.BUILD / "bin").iterdir(), *(self.prefix / "bin").iterdir()]):
            if not program.is_file() or not os.access(program, os.X_OK):
                continue
            for line in run("ldd", program).splitlines():
                if "=> /" in line:
                    (trap / line.split()[0]).write_text("no library")
                    seen += 1
            result = subprocess.run([program, "--help"], cwd=trap, env=ENVIRONMENT, capture_output=True, text=True)
            self.assertEqual(result.returncode, 0, f"{program}: {result.stderr}")
        self.assertGreater(seen, 0)

    def test_program_without_a_target(self):
        output = run(self.build / "program", code=3)
        self.assertIn("TAPEBACK_TARGET", output)

    def test_program_alone(self):
        output = run(self.build / "program", TAPEBACK_TARGET=f"model:{self.build}/doorbell.so")
        self.assertEqual(output, "100 rings, not recorded\n")

    def test_tapes(self):
        tape = self.scratch / "own.tape"
        self.assertEqual(run(self.build / "tapes", tape), "499500\n")
        run(self.tapeback, "verify", tape)

    def test_targets(self):
        self.assertEqual(run(self.build / "targets", "null:"), "0\n")
        # From a program elsewhere, linked statically, only the environment can say where the installation went.
        self.assertEqual(run(self.build / "targets", f"model:{self.build}/doorbell.so",
                             TAPEBACK_PLUGINS=f"{self.prefix}/lib/tapeback"), "d00bbe11\n")

    def test_own_model_through_the_loop(self):
        tape = self.scratch / "doorbell.tape"
        model = f"model:{self.build}/doorbell.so"
        output = run(self.tapeback, "record", "--target", model, "--description", CONSUMER / "doorbell.yaml", "-o", tape,
                     "--", self.build / "program")
        self.assertIn("100 rings, recorded\n", output)
        run(self.tapeback, "replay", tape, "--target", model)
        run(self.tapeback, "replay", tape, "--target", model + "?fault=71", code=1)
        report = json.loads(run(self.tapeback, "bisect", tape, "--good", model, "--bad", model + "?fault=71", "--json",
                                code=1))
        place = report["first_divergence"]
        self.assertEqual((place["marker"], place["address"], place["good"], place["bad"]),
                         ("ring", "0x8", "0x46", "0x47"))

    def test_edu_through_the_loop(self):
        tape = self.scratch / "edu.tape"
        exercise = self.prefix / "bin" / "edu-exercise"
        run(self.tapeback, "record", "--target", "model:edu", "-o", tape, "--", exercise, "--seed", 3, "--ops", 40)
        run(self.tapeback, "verify", tape)
        run(self.tapeback, "replay", tape, "--target", "model:edu")
        if shutil.which("qemu-system-x86_64"):
            run(self.tapeback, "replay", tape, "--target", "qemu:edu")


if __name__ == "__main__":
    ScriptTest.main()
