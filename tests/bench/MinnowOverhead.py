#!/usr/bin/env python3
"""What recording costs a run of Minnow's RTL: the same workload with recording off and on, in turns.

    tests/bench/MinnowOverhead.py [--pairs N] [--net NAME] [--inferences N] [--bin DIR]

Each pair runs both. Prints one JSON object: the ratio on/off of whole runs (with start, tape and all) as the
trimmed mean of the pairs, with a bootstrap interval (95 %, seeded), both of wall time and of the processor time that the processes and
their children took, and each pair's seconds. A run that fails ends it with exit code 1.
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
    parser.add_argument("--inferences", type=int, default=8, help="of the network in one run (default: %(default)s)")
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
        pairs = in_turns(lambda: timed(workload, alone), lambda: timed(recorded), options.pairs)
    print(json.dumps({"benchmark": "minnow-recording-overhead", "workload": options.net, "inferences": options.inferences,
                      "target": options.target, **compared(pairs, "off", "on")}))


if __name__ == "__main__":
    main()
