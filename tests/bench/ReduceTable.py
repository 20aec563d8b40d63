#!/usr/bin/env python3
"""What reduce takes to bring long failing tapes to their cause, beside plain delta debugging on the same tapes.

    tests/bench/ReduceTable.py [--packets N] [--seconds N] [--erratum NAME]... [--intermittent] [--bin DIR]

Records a tape of at least N packets (10,000) in which one erratum of rtl:minnow acts once (minnow-errata), for every erratum
that is not intermittent, and reduces it on that target against model:minnow: by `tapeback reduce`, and by `--plain`, the
published ddmin on packets as they are. Prints a table: packets left, runs until no packet can go, runs of all (with those
that shorten and zero, which ddmin does not do), and seconds. ddmin is stopped after --seconds (120); its runs then count as
at least so many.

Each reduced tape is verified and replayed: on the target it must reproduce, on the model and on an RTL without the erratum it
must not. The same must hold of the C program that is exported from it, if there is a C compiler (--no-program leaves it out).
What ddmin left is replayed on the RTL without the erratum, too: "artefact" means that it fails there, so that what is left has
nothing to do with the erratum; ddmin then had an easier task.

Exits 1 if a tape does not come to 30 packets or fewer, if runs until no packet can go or runs in all are more than half of
ddmin's, or if a reduced tape or program is not as it should be. --intermittent adds fence-overtake with a jitter that is
seeded anew for each run, without ddmin.
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
# Those that hang or halt act at the end of the tape, the others at its beginning, to be seen at its end.
LATE = ["dma-4k-last-beat", "requant-wrap", "stale-scratchpad", "counter-stall", "reset-head"]
AT_ONCE = ["wrap-full-hang", "chain-prefetch"]
PACKETS_AN_OPERATION = 42  # Of minnow-errata, about.
MOST_PACKETS = 30
SOUND = "rtl:minnow"  # The target without its erratum.


class Bench:
    def __init__(self, options, folder):
        self.bin, self.folder, self.options = options.bin.resolve(), pathlib.Path(folder), options

    def run(self, *words, codes=(0,)):
        command = [str(self.bin / "tapeback"), *map(str, words)]
        started = time.monotonic()
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=3600, check=False)
        seconds = time.monotonic() - started
        if done.returncode not in codes:
            sys.exit(f"{' '.join(command)}\nexit {done.returncode}\n{done.stdout}{done.stderr}")
        return (json.loads(done.stdout) if "--json" in command else {}), seconds, done.returncode

    def record(self, erratum, target):
        tape = self.folder / f"{erratum}.tape"
        operations = self.options.packets // PACKETS_AN_OPERATION
        while True:
            hit, late = (5, operations) if erratum in LATE else (operations, 1)
            self.run("record", "--force", "--target", target, "-o", tape, "--", self.bin / "tests" / "minnow-errata",
                     erratum, "--hit", hit, "--late", late)
            packets = self.run("info", "--json", tape)[0]["packets"]
            if packets >= self.options.packets:
                return tape, packets
            operations += operations // 50 + 1

    def reduce(self, tape, target, *more):
        small = self.folder / f"{tape.stem}{len(more)}-small.tape"
        report, seconds, _ = self.run("reduce", "--json", "--force", tape, "--target", target, "--against", "model:minnow",
                                      "-o", small, *more, codes=(0, 5))
        return small, report, seconds

    def reproduces(self, tape, target):
        """The failure itself: a check that fails as recorded, or the target's death."""
        _, _, code = self.run("replay", "--json", tape, "--target", target, "--expect", "signature", codes=(0, 1, 4, 5))
        return code == 0

    def program(self, small, target):
        """What is wrong with the C program made of it."""
        source, program = small.with_suffix(".c"), small.with_suffix(".bin")
        self.run("export", "--to", "c", "--force", small, "-o", source)
        library = self.bin.parent / "lib"
        built = subprocess.run(["cc", "-std=c99", "-pedantic-errors", "-Wall", "-Wextra", "-Werror", "-I", ROOT / "recorder", source,
                                "-o", program, "-L", library, f"-Wl,-rpath,{library}", "-ltapeback"],
                               capture_output=True, text=True, timeout=300, check=False)
        if built.returncode:
            return f"the program does not compile: {built.stderr}"
        for on, wanted in ((target, 1), (SOUND, 0), ("model:minnow", 0)):
            done = subprocess.run([program], env=os.environ | {"TAPEBACK_TARGET": on}, capture_output=True, text=True, timeout=300,
                                  check=False)
            if done.returncode != wanted:
                return f"the program exits {done.returncode} on {on}, not {wanted}: {done.stderr.strip()}"
        return ""

    def check(self, small, target):
        """What is wrong with the reduced tape; nothing if it is as it should be."""
        self.run("verify", small)
        if not self.reproduces(small, target):
            return "does not reproduce"
        for sound in (SOUND, "model:minnow"):
            if self.reproduces(small, sound):
                return f"an artefact: fails on {sound}, too"
        return self.program(small, target) if self.options.program else ""


def until_minimal(report):
    """Runs until the first time that no packet could go."""
    runs = 0
    for stage in report["stages"]:
        runs += stage["runs"]
        if stage["name"] == "packets":
            break
    return runs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packets", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=120, help="how long ddmin may take with one tape")
    parser.add_argument("--erratum", action="append", choices=LATE + AT_ONCE, help="these alone")
    parser.add_argument("--no-program", dest="program", action="store_false", default=shutil.which("cc") is not None)
    parser.add_argument("--intermittent", action="store_true")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "release" / "bin")
    options = parser.parse_args()
    wrong = []
    print("| Erratum | Tape | reduce: packets | runs to minimal | runs in all | s | ddmin: packets | runs | s | runs to minimal / ddmin's | runs in all / ddmin's |")
    print("| --- |" + 10 * " --- |", flush=True)
    with tempfile.TemporaryDirectory(prefix="tb-reduce-") as folder:
        bench = Bench(options, folder)
        for erratum in options.erratum or LATE + AT_ONCE:
            target = f"rtl:minnow?errata={erratum}"
            tape, packets = bench.record(erratum, target)
            small, ours, seconds = bench.reduce(tape, target)
            fault = bench.check(small, target)
            peer, plain, plain_seconds = bench.reduce(tape, target, "--plain", "--max-seconds", options.seconds)
            stopped = plain["stopped"] is not None
            artefact = ", artefact" if bench.reproduces(peer, SOUND) else ""
            ratio, all_ratio = until_minimal(ours) / plain["runs"], ours["runs"] / plain["runs"]
            most = "at most " if stopped else ""
            print(f"| `{erratum}` | {packets:,} | {ours['packets']} | {until_minimal(ours)} | {ours['runs']} | {seconds:.1f} "
                  f"| {plain['packets']}{' so far' if stopped else ''}{artefact} | {'at least ' if stopped else ''}{plain['runs']} "
                  f"| {plain_seconds:.1f} | {most}{ratio:.2f} | {most}{all_ratio:.2f} |", flush=True)
            if fault:
                wrong.append(f"{erratum}: {fault}")
            if not ours["minimal"] or ours["packets"] > MOST_PACKETS:
                wrong.append(f"{erratum}: {ours['packets']} packets")
            if max(ratio, all_ratio) > 0.5:
                wrong.append(f"{erratum}: {until_minimal(ours)} runs to minimal, {ours['runs']} in all, ddmin {plain['runs']}")
        if options.intermittent:
            tape, packets = bench.record("fence-overtake", "rtl:minnow?errata=fence-overtake&jitter=256&seed=3")
            _, ours, seconds = bench.reduce(tape, "rtl:minnow?errata=fence-overtake&jitter=256&seed={run}", "--intermittent")
            before, after = ours["rate_before"], ours["rate_after"]
            print(f"\nfence-overtake, intermittent: {packets:,} packets to {ours['packets']} in {ours['runs']} runs, {seconds:.0f} s; "
                  f"rate {before['rate']:.3f} ({before['low']:.3f} to {before['high']:.3f}), of what is left {after['rate']:.3f} "
                  f"({after['low']:.3f} to {after['high']:.3f})")
    for line in wrong:
        print(f"not as it should be: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
