#!/usr/bin/env python3
"""Measures how long Minnow's errata stay unseen, and writes the table in hal/minnow/ERRATA.md.

usage: tests/e2e/MinnowLatency.py [--build DIR] [--print]

For each erratum: records a workload on rtl:minnow with the erratum on, replays it on model:minnow (which must
diverge), and bisects. "Acts in" is the packet that bisect names; where the workload says in which operation the
erratum acts (minnow-errata), that must be the operation named, or the script fails. Host and deep are counted
from there, in packets. Nothing in the table is typed by hand.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ERRATA = ROOT / "hal/minnow/ERRATA.md"
BEGIN, END = "<!-- table by tests/e2e/MinnowLatency.py -->", "<!-- end of table -->"
HIT, LATE = 5, 300

NETWORKS = [  # Erratum, the target's further options, program.
    ("dma-4k-last-beat", "", "minnow-run --net ad"),
    ("dma-4k-last-beat", "", "minnow-run --net ad --scratchpad 20 --ring 8"),
    ("requant-wrap", "", "minnow-run --net kws"),
    ("stale-scratchpad", "", "minnow-run --net ad"),
    ("counter-stall", "", "minnow-run --net ad"),
    ("counter-stall", "", "minnow-run --net vww --checks end"),
    ("reset-head", "", "minnow-run --net ad"),
    ("fence-overtake", "&jitter=256", "minnow-run --net ad --inferences 5"),
    ("wrap-full-hang", "", "minnow-run --net ad --ring 8"),
    ("chain-prefetch", "", "minnow-run --net ad"),
]
SYNTHETIC = [
    ("dma-4k-last-beat", ""),
    ("requant-wrap", ""),
    ("stale-scratchpad", ""),
    ("counter-stall", ""),
    ("reset-head", ""),
    ("fence-overtake", "&jitter=256&seed=3"),
    ("wrap-full-hang", ""),
    ("chain-prefetch", ""),
]


def run(command, expected):
    result = subprocess.run(command, capture_output=True, text=True, timeout=900)
    if result.returncode != expected:
        sys.exit(f"{' '.join(map(str, command))}\nexit {result.returncode}, not {expected}\n{result.stdout}{result.stderr}")
    return json.loads(result.stdout)


def measure(build, folder, erratum, options, program, operation=None):
    tape = folder / "run.tape"
    target = f"rtl:minnow?errata={erratum}{options}"
    tapeback = build / "bin/tapeback"
    words = program.split()
    words[0] = str(build / ("bin/tests" if words[0] == "minnow-errata" else "bin") / words[0])
    run([tapeback, "record", "--json", "--force", "--target", target, "-o", tape, "--", *words], 0)
    info = run([tapeback, "info", "--json", tape], 0)
    replay = run([tapeback, "replay", "--json", tape, "--target", "model:minnow"], 1)
    found = run([tapeback, "bisect", "--json", tape, "--good", "model:minnow", "--bad", target, "--probe", "deep"], 1)
    place, observed = found["first_divergence"], found["first_observed"]
    if operation and (place["marker"], place["occurrence"]) != ("op", operation):
        sys.exit(f"{erratum}: bisect names {place}, but it acts in operation {operation}")
    if observed["packet"] != replay["first_divergence"]["packet"]:
        sys.exit(f"{erratum}: replay and bisect see it at different packets")
    packet = place["packet"]
    # What the host sees first, deep names too.
    deep = observed["packet"] if place["packet"] == observed["packet"] else found["visible_at"]
    return [
        f"`{erratum}`",
        f"`{program}`" + (f", {options[1:]}" if options else ""),
        f"{info['packets']:,} packets, {info['windows']:,} windows",
        f"window {place['window']:,}, packet {packet:,}",
        f"{observed['packet'] - packet:,} packets, {observed['window'] - place['window']:,} windows",
        f"{deep - packet:,} packets",
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="build tree")
    parser.add_argument("--print", action="store_true", help="print the table instead of writing it")
    arguments = parser.parse_args()
    rows = [["Erratum", "Workload", "Tape", "Acts in", "Host sees it after", "Deep sees it after"], ["---"] * 6]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for erratum, options in SYNTHETIC:
            program = f"minnow-errata {erratum} --hit {HIT} --late {LATE}"
            rows.append(measure(arguments.build, folder, erratum, options, program, HIT))
        for erratum, options, program in NETWORKS:
            rows.append(measure(arguments.build, folder, erratum, options, program))
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    if arguments.print:
        print(table)
        return
    text = ERRATA.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    ERRATA.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")


if __name__ == "__main__":
    main()
