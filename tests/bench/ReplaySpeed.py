#!/usr/bin/env python3
"""What a replay takes of the time that the recorded program took: Minnow's RTL, both in turns.

    tests/bench/ReplaySpeed.py [--pairs N] [--net NAME] [--inferences N] [--bin DIR]

Records the workload once. Then each pair runs the program alone and the replay of its tape, on the same target. Prints one
JSON object: the ratio replay/program of whole runs (with the start of everything) as the median of the pairs, with a
bootstrap interval (95 %, seeded), both of wall time and of the processor time that the processes and their children took,
and each pair's seconds. A run that fails, or a replay that does not match, ends it with exit code 1.
"""
import argparse
import json
import os
import pathlib
import tempfile

from pairs import compared, in_turns, timed

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--net", default="kws")
    parser.add_argument("--inferences", type=int, default=1, help="of the network in one run (default: %(default)s)")
    parser.add_argument("--target", default="rtl:minnow")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "release" / "bin")
    options = parser.parse_args()
    if options.pairs < 3:
        parser.error("--pairs must be at least 3")

    workload = [str(options.bin / "minnow-run"), "--net", options.net, "--inferences", str(options.inferences)]
    tapeback = str(options.bin / "tapeback")
    alone = dict(os.environ, TAPEBACK_TARGET=options.target)
    with tempfile.TemporaryDirectory(prefix="tb-bench-") as scratch:
        tape = os.path.join(scratch, "run.tape")
        recorded = [tapeback, "record", "--target", options.target, "-o", tape, "--force", "--", *workload]
        timed(workload, alone)  # The first run also reads the programs from disk.
        timed(recorded)
        replay = [tapeback, "replay", tape, "--target", options.target]
        pairs = in_turns(lambda: timed(workload, alone), lambda: timed(replay), options.pairs)
    print(json.dumps({"benchmark": "minnow-replay-speed", "workload": options.net, "inferences": options.inferences,
                      "target": options.target, **compared(pairs, "program", "replay")}))


if __name__ == "__main__":
    main()
