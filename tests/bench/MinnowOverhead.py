#!/usr/bin/env python3
"""What recording costs a run of Minnow's RTL: the same workload with recording off and on, in turns.

    tests/bench/MinnowOverhead.py [--pairs N] [--net NAME] [--bin DIR]

Each pair runs both, the first of them by turns, so that a machine that grows slower hits both alike. Prints one JSON
object: the ratio on/off of whole wall times (with start, tape and all) as the median of the pairs, with a bootstrap
interval (95 %, seeded), and each pair's seconds. A run that fails ends it with exit code 1: its time means nothing.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def timed(command, environment):
    started = time.monotonic()
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    seconds = time.monotonic() - started
    if done.returncode:
        sys.exit(f"{' '.join(command)} exited with {done.returncode}:\n{done.stdout.decode(errors='replace')[-2000:]}")
    return seconds


def bootstrap(ratios, rounds=10000):
    """The 95 % interval of the median."""
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(rounds))
    return medians[int(rounds * 0.025)], medians[int(rounds * 0.975)]


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
    with tempfile.TemporaryDirectory(prefix="tb-bench-") as scratch:
        tape = os.path.join(scratch, "run.tape")
        recorded = [str(options.bin / "tapeback"), "record", "--target", options.target, "-o", tape, "--force", "--", *workload]
        environment = dict(os.environ)
        alone = dict(environment, TAPEBACK_TARGET=options.target)
        pairs = []
        timed(workload, alone)  # The first run also reads the programs from disk.
        for number in range(options.pairs):
            if number % 2:
                on = timed(recorded, environment)
                off = timed(workload, alone)
            else:
                off = timed(workload, alone)
                on = timed(recorded, environment)
            pairs.append((off, on))
    ratios = [on / off for off, on in pairs]
    low, high = bootstrap(ratios)
    print(json.dumps({
        "benchmark": "minnow-recording-overhead", "workload": options.net, "target": options.target,
        "pairs": len(pairs), "ratio": round(statistics.median(ratios), 4), "low": round(low, 4), "high": round(high, 4),
        "off": [round(off, 3) for off, _ in pairs], "on": [round(on, 3) for _, on in pairs]}))


if __name__ == "__main__":
    main()
