#!/usr/bin/env python3
"""What a replay takes of the time that the recorded program took: Minnow's RTL, both in turns.

    tests/bench/ReplaySpeed.py [--pairs N] [--net NAME] [--bin DIR]

Records the workload once. Then each pair runs the program alone and the replay of its tape, on the same target, the first of
them by turns, so that a machine that grows slower hits both alike. Prints one JSON object: the ratio replay/program of whole
times (with the start of everything) as the median of the pairs, with a bootstrap interval (95 %, seeded), both of wall time
and of the processor time that the processes and their children took, and each pair's seconds. A run that fails, or a replay
that does not match, ends it with exit code 1.
"""
import argparse
import json
import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def timed(command, environment):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    wall = time.monotonic() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(command)} exited with {done.returncode}:\n{done.stdout.decode(errors='replace')[-2000:]}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def summary(ratios, rounds=10000):
    """Median and the 95 % interval of it."""
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(rounds))
    return {"ratio": round(statistics.median(ratios), 4), "low": round(medians[int(rounds * 0.025)], 4),
            "high": round(medians[int(rounds * 0.975)], 4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--net", default="kws")
    parser.add_argument("--target", default="rtl:minnow")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "release" / "bin")
    options = parser.parse_args()
    if options.pairs < 3:
        parser.error("--pairs must be at least 3")

    workload = [str(options.bin / "minnow-run"), "--net", options.net]
    alone = dict(os.environ, TAPEBACK_TARGET=options.target)
    with tempfile.TemporaryDirectory(prefix="tb-bench-") as scratch:
        tape = os.path.join(scratch, "run.tape")
        timed([str(options.bin / "tapeback"), "record", "--target", options.target, "-o", tape, "--", *workload], os.environ)
        replay = [str(options.bin / "tapeback"), "replay", tape, "--target", options.target]
        timed(workload, alone)  # The first run also reads the programs from disk.
        pairs = []
        for number in range(options.pairs):
            if number % 2:
                replayed = timed(replay, os.environ)
                program = timed(workload, alone)
            else:
                program = timed(workload, alone)
                replayed = timed(replay, os.environ)
            pairs.append((program, replayed))
    print(json.dumps({
        "benchmark": "minnow-replay-speed", "workload": options.net, "target": options.target, "pairs": len(pairs),
        "wall": summary([replayed[0] / program[0] for program, replayed in pairs]),
        "processor": summary([replayed[1] / program[1] for program, replayed in pairs]),
        "program": [round(program[0], 3) for program, _ in pairs],
        "replay": [round(replayed[0], 3) for _, replayed in pairs]}))


if __name__ == "__main__":
    main()
