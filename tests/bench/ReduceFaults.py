#!/usr/bin/env python3
"""What reduce makes of each kind of fault: of one that heals, that needs two packets far apart, that only the device's memory,
an order or a counter shows, on edu, on Minnow's RTL and on QEMU's NVMe controller.

    tests/bench/ReduceFaults.py [--only TEXT]... [--bin DIR]

Records a tape on the faulty target (or, where it says so, on the sound one), reduces it against a sound one, and looks at what is
left as a user would: it verifies and names its parent, it reproduces on the faulty target and on no sound one, and so does the C
program that is exported from it, if there is a C compiler. What no answer of a device shows cannot be judged by reduce; it must
then say "does-not-fail" and name the tool that can. Prints a table; exits 1 if anything was otherwise.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
EDU = "edu-exercise --seed 3 --ops 60 --keep-going"
NVME = "qemu:nvme?medium=1M&pattern="


def erratum(name, late=40):
    return f"rtl:minnow?errata={name}", ["model:minnow", "rtl:minnow"], f"tests/minnow-errata {name} --hit 5 --late {late}"


# Kind of fault; faulty target; sound ones, of which the first judges; program; most packets that may be left, or None: beyond.
CASES = [
    ("a wrong byte", "model:edu?fault=dma-last-byte", ["model:edu"], EDU, 14),
    ("a wrong byte, judged by QEMU", "model:edu?fault=dma-last-byte", ["qemu:edu", "model:edu"], EDU, 14),
    ("a wrong result", "model:edu?fault=factorial", ["model:edu"], EDU, 8),
    ("a cause that stays", "model:edu?fault=irq-sticky", ["model:edu"], EDU, 12),
    ("heals unseen", "model:edu?fault=dma-heals", ["model:edu"], EDU, None),
    ("two packets far apart", "model:edu?fault=pair", ["model:edu"], EDU, 16),
    ("an order", "model:edu?fault=early-done", ["model:edu"], EDU, 14),
    ("memory of the device, seen late", *erratum("requant-wrap"), 30),
    ("memory of the device, seen late", *erratum("dma-4k-last-beat"), 30),
    ("the same, among two busy queues", "rtl:minnow?errata=dma-4k-last-beat", ["model:minnow", "rtl:minnow"],
     "minnow-stress --seed 5 --commands 40", 30),
    ("two packets far apart", *erratum("reset-head"), 30),
    ("two queues at work", *erratum("wrap-full-hang"), 30),
    ("an order", *erratum("chain-prefetch"), 30),
    ("a counter", *erratum("counter-stall"), 30),
    ("another medium", NVME + "zero", [NVME + "index"], "nvme-exercise --seed 11 --ops 6", 40),
]


class Bench:
    def __init__(self, bin, folder):
        self.bin, self.folder = bin.resolve(), pathlib.Path(folder)

    def run(self, *words, codes=(0,)):
        command = [str(self.bin / "tapeback"), *map(str, words)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1800, check=False)
        if done.returncode not in codes:
            sys.exit(f"{' '.join(command)}\nexit {done.returncode}\n{done.stdout}{done.stderr}")
        return (json.loads(done.stdout) if "--json" in command else {}), done.returncode

    def record(self, target, program):
        tape = self.folder / "run.tape"
        name, *arguments = program.split()
        self.run("record", "--force", "--target", target, "-o", tape, "--", self.bin / name, *arguments)
        return tape

    def reproduces(self, tape, target):
        return self.run("replay", "--json", tape, "--target", target, "--expect", "signature", codes=(0, 1, 4, 5))[1] == 0

    def program(self, small, faulty, sound):
        source, program = small.with_suffix(".c"), small.with_suffix(".bin")
        self.run("export", "--to", "c", "--force", small, "-o", source)
        library = self.bin.parent / "lib"
        subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-I", ROOT / "recorder", source, "-o", program, "-L", library,
                        f"-Wl,-rpath,{library}", "-ltapeback"], timeout=300, check=True)
        for target, wanted in [(faulty, 1), *((target, 0) for target in sound)]:
            done = subprocess.run([program], env=os.environ | {"TAPEBACK_TARGET": target}, capture_output=True, text=True, timeout=300,
                                  check=False)
            if done.returncode != wanted:
                return f"the program exits {done.returncode} on {target}: {done.stderr.strip()}"
        return ""

    def check(self, tape, small, faulty, sound):
        self.run("verify", small)
        root = self.run("info", "--json", tape)[0]["root"]
        if root not in json.dumps(self.run("info", "--json", small)[0]):
            return "does not name its parent"
        if not self.reproduces(small, faulty):
            return "does not reproduce"
        for target in sound:
            if self.reproduces(small, target):
                return f"reproduces on {target}"
        return self.program(small, faulty, sound) if shutil.which("cc") else ""

    def case(self, faulty, sound, program, most):
        tape, small = self.record(faulty, program), self.folder / "small.tape"
        packets = self.run("info", "--json", tape)[0]["packets"]
        started = time.monotonic()
        report, code = self.run("reduce", "--json", "--force", tape, "--target", faulty, "--against", sound[0], "-o", small,
                                codes=(0, 1))
        seconds = time.monotonic() - started
        if code:
            error = report["error"]
            beyond = error["code"] == "does-not-fail" and "bisect --probe deep" in error["hint"]
            what = "beyond: no answer shows it" if beyond else error["message"]
            return packets, what, "" if beyond and most is None else what, seconds
        if most is None:
            return packets, f"{report['packets']} packets", "should be beyond what answers show", seconds
        wrong = self.check(tape, small, faulty, sound)
        if report["packets"] > most or not report["minimal"]:
            wrong = wrong or f"{report['packets']} packets, of {most}"
        return packets, f"{report['packets']} packets in {report['runs']} runs", wrong, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="cases in whose kind or target this stands")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "release" / "bin")
    options = parser.parse_args()
    failed = False
    print("| Fault | Target | Tape | Left | s |\n| --- | --- | --- | --- | --- |", flush=True)
    with tempfile.TemporaryDirectory(prefix="tb-faults-") as folder:
        bench = Bench(options.bin, folder)
        for kind, faulty, sound, program, most in CASES:
            if options.only and not any(text in kind or text in faulty for text in options.only):
                continue
            if "qemu:" in faulty + sound[0] and not shutil.which("qemu-system-x86_64"):
                print(f"| {kind} | `{faulty}` | | left out: there is no QEMU | |", flush=True)
                continue
            packets, left, wrong, seconds = bench.case(faulty, sound, program, most)
            print(f"| {kind} | `{faulty}` | {packets:,} | {left}{'; NOT AS IT SHOULD BE: ' + wrong if wrong else ''} | {seconds:.1f} |",
                  flush=True)
            failed |= bool(wrong)
    return failed


if __name__ == "__main__":
    sys.exit(main())
