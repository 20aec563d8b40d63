#!/usr/bin/env python3
"""What recording costs a run of Minnow's RTL: the same workload with recording off and on.

    tests/bench/MinnowOverhead.py [--pairs N] [--net NAME] [--inferences N] [--slice S] [--pin CPU] [--same] [--bin DIR]

Both runs of a pair are under way at once and run in slices of time, one stopped while the other goes on, so that what
else the machine does hits both; --slice 0 runs one whole after the other. --pin keeps workload and model (not the
collector) on one processor: where the scheduler puts them is luck that is several times what is measured. --same takes
"off" for both, which says what this machine and method make of a ratio of one.

Prints one JSON object: the ratio on/off of whole runs (with start, tape and all) as the trimmed mean of the pairs, with a
bootstrap interval (95 %, seeded), both of wall time and of the processor time that the processes and their children took,
and each pair's seconds. A run that fails ends it with exit code 1.
"""
import argparse
import json
import os
import pathlib
import tempfile

from pairs import compared, in_turns, side_by_side, timed

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--net", default="kws")
    parser.add_argument("--inferences", type=int, default=16, help="of the network in one run (default: %(default)s)")
    parser.add_argument("--target", default="rtl:minnow")
    parser.add_argument("--slice", type=float, default=0.25, help="seconds; 0: whole runs in turns (default: %(default)s)")
    parser.add_argument("--pin", type=int, metavar="CPU")
    parser.add_argument("--same", action="store_true", help="recording is off in both")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "release" / "bin")
    options = parser.parse_args()
    if options.pairs < 3:
        parser.error("--pairs must be at least 3")
    if options.slice < 0:
        parser.error("--slice must not be negative")

    pinned = [] if options.pin is None else ["taskset", "-c", str(options.pin)]
    workload = [*pinned, str(options.bin / "minnow-run"), "--net", options.net, "--inferences", str(options.inferences)]
    alone = dict(os.environ, TAPEBACK_TARGET=options.target)
    with tempfile.TemporaryDirectory(prefix="tb-bench-") as scratch:
        tape = os.path.join(scratch, "run.tape")
        recorded = [str(options.bin / "tapeback"), "record", "--target", options.target, "-o", tape, "--force", "--", *workload]
        off = (workload, alone)
        on = off if options.same else (recorded, None)
        timed(*off)  # The first run also reads the programs from disk.
        if options.slice:
            pairs = side_by_side(off, on, options.pairs, options.slice)
        else:
            pairs = in_turns(lambda: timed(*off), lambda: timed(*on), options.pairs)
    print(json.dumps({"benchmark": "minnow-recording-overhead", "workload": options.net, "inferences": options.inferences,
                      "target": options.target, "slice": options.slice, "pinned": options.pin, "same": options.same,
                      **compared(pairs, "off", "on")}))


if __name__ == "__main__":
    main()
