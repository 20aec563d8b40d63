#!/usr/bin/env python3
"""Replays Minnow's networks and stress programs at other memory layouts, jitter seeds and targets: all must match.

    tests/bench/RelocationCampaign.py [--seeds N] [--commands N] [--nets ad,kws] [--jitter N] [--bin DIR]

Each workload is recorded once on each target and replayed on each, at every layout. Prints one JSON object: how many replays
there were, how many ranges and addresses were elsewhere, and every replay that did not match, with its command. Exit code 1 if
there is one. Not a part of CI: a hundred tapes take minutes.
"""
import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LAYOUTS = ["auto", "shift=0x3000", "shift=0x7654321000", "fragment", "reverse", "seed={seed}"]


def run(command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--commands", type=int, default=200)
    parser.add_argument("--nets", default="ad")
    parser.add_argument("--jitter", type=int, default=64)
    parser.add_argument("--record", default="rtl:minnow,model:minnow")
    parser.add_argument("--replay", default="rtl:minnow?jitter={jitter}&seed={seed},model:minnow")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "release" / "bin")
    options = parser.parse_args()
    tapeback = str(options.bin / "tapeback")
    workloads = [(f"net {net}", 1, ["minnow-run", "--net", net]) for net in options.nets.split(",") if net]
    workloads += [(f"stress {seed}", seed, ["minnow-stress", "--seed", str(seed), "--commands", str(options.commands)])
                  for seed in range(options.first, options.first + options.seeds)]
    tapes = replays = moved = pointers = registers = 0
    failures = []
    with tempfile.TemporaryDirectory(prefix="tb-relocate-") as scratch:
        tape = str(pathlib.Path(scratch) / "run.tape")
        for (name, seed, program), source in itertools.product(workloads, options.record.split(",")):
            recorded = run([tapeback, "record", "--force", "--target", source, "-o", tape, "--",
                            str(options.bin / program[0]), *program[1:]])
            if recorded.returncode:
                sys.exit(f"{name} on {source}: {recorded.stderr.decode(errors='replace')[-1000:]}")
            tapes += 1
            for target, layout in itertools.product(options.replay.split(","), LAYOUTS):
                command = [tapeback, "replay", tape, "--json", "--target", target.format(jitter=options.jitter, seed=seed),
                           "--relocate", layout.format(seed=seed)]
                done = run(command)
                replays += 1
                try:
                    report = json.loads(done.stdout)
                except ValueError:
                    report = {}
                for device in report.get("relocation", []):
                    moved += device["moved"]
                    pointers += device["pointers"]
                    registers += device["registers"]
                if done.returncode or report.get("verdict") != "match":
                    failures.append({"workload": name, "recorded_on": source, "command": command[3:],
                                     "first": (report.get("first_divergence") or {}).get("text") or
                                              done.stderr.decode(errors="replace")[-300:]})
    print(json.dumps({"campaign": "relocation", "tapes": tapes, "replays": replays, "ranges_moved": moved,
                      "addresses_changed": pointers, "register_writes_changed": registers,
                      "failures": len(failures), "first_failures": failures[:10]}))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
