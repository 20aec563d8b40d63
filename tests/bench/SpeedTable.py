#!/usr/bin/env python3
"""The table of docs/performance.md, measured: what, the figure, what it must reach and what it aims for.

    tests/bench/SpeedTable.py [--seconds S] [--gigabytes N] [--minnow PAIRS] [--bin DIR] [--json FILE] [--from FILE]

Runs recorder-bench, LttngPeer.py and, where asked for (they take minutes), large-tape-bench (--gigabytes 10) and
MinnowOverhead.py (--minnow 15), one after another, and prints a table; --json keeps all that they said. What was not run
or is not installed is said to be skipped, never left out. --from FILE makes the table of what --json kept. A benchmark
that fails ends it with exit code 1.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = pathlib.Path(__file__).resolve().parent

# What, where its figure is, must, aim (None: nothing is asked), unit; "<" at most, ">" at least.
LINES = [
    ("A recorded call, sustained, against two counter reads", ("recorder", "hot_path", "sustained_to_stamps"), "<", 1.3, 1.15, "x"),
    ("The same in bursts of ten", ("recorder", "hot_path", "burst_to_stamps"), "<", 2, 1.5, "x"),
    ("A recorded call with 100 triggers armed, against none", ("recorder", "hot_path", "armed", "sustained_to_on"), "<", 1.05, 1.02, "x"),
    ("One stamped record against an LTTng-UST event of equal payload", ("lttng", "event_ratio"), "<", 0.2, 0.12, "x"),
    ("The same through the C API: tb_mark with its name", ("lttng", "mark_ratio"), "<", None, None, "x"),
    ("An access, stamped twice, against such an event", ("lttng", "access_ratio"), "<", None, None, "x"),
    ("Linked in but not recording, per call", ("recorder", "hot_path", "off_call_ns"), "<", 2, 0.5, "ns"),
    ("p99.9 of recorded calls against their median", ("recorder", "hot_path", "p999_to_median"), "<", 6, 3, "x"),
    ("Stream to disk, lossless: registers", ("recorder", "registers", "stream_mpps"), ">", 25, 50, "M/s"),
    ("Stream to disk, lossless: command ring", ("recorder", "command_ring", "stream_mpps"), ">", 15, 25, "M/s"),
    ("Bytes a packet: registers", ("recorder", "registers", "bytes_per_packet"), "<", 4, 3, ""),
    ("Bytes a packet: command ring", ("recorder", "command_ring", "bytes_per_packet"), "<", 8, 6.5, ""),
    ("Reading in order, hashes verified: registers", ("recorder", "registers", "read_mpps"), ">", 60, 150, "M/s"),
    ("Reading in order, hashes verified: command ring", ("recorder", "command_ring", "read_mpps"), ">", 40, 100, "M/s"),
    ("New payloads of 64 KiB, compressible, against lz4", ("recorder", "payloads", "compressible_to_lz4"), ">", 0.75, 0.85, "x"),
    ("New payloads of 64 KiB, incompressible", ("recorder", "payloads", "incompressible_gbps"), ">", 2, 3.5, "GB/s"),
    ("Unchanged payloads of 64 KiB", ("recorder", "payloads", "unchanged_gbps"), ">", 8, 15, "GB/s"),
    ("A large tape, opened to its first packet", ("large", "open_to_first_packet", "median_ms"), "<", 20, 2, "ms"),
    ("The same, nothing of it in the page cache", ("large", "open_to_first_packet_cold", "median_ms"), "<", 20, 2, "ms"),
    ("Any window after that (99 of 100)", ("large", "any_window", "p99_ms"), "<", 3, 1, "ms"),
    ("Minnow's RTL on one processor, recording on against off (upper bound)", ("minnow", "wall", "high"), "<", 1.02, 1.01, "x"),
]


def run(*command):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit(f"{command[0]} failed ({done.returncode}):\n{done.stderr.decode(errors='replace')[-2000:]}")
    return json.loads(done.stdout)


def measure(options):
    programs = options.bin / "bench"
    results = {"recorder": run(programs / "recorder-bench", "--seconds", options.seconds),
               "lttng": run(HERE / "LttngPeer.py", "--bin", options.bin)}
    if options.gigabytes:
        results["large"] = run(programs / "large-tape-bench", "--gigabytes", options.gigabytes)
    if options.minnow:
        results["minnow"] = run(HERE / "MinnowOverhead.py", "--pairs", options.minnow, "--pin", min(os.sched_getaffinity(0)),
                                "--bin", options.bin)
    return results


def figure(results, path):
    for key in path:
        results = results.get(key) if isinstance(results, dict) else None
    return results


def rows(results):
    for what, path, sense, must, aim, unit in LINES:
        value = figure(results, path)
        if must is None:
            yield what, "skipped" if value is None else f"{value:.3g} {unit}".rstrip(), "", ""
            continue
        limit = f"{'≤' if sense == '<' else '≥'} {must:g} {unit}".rstrip()
        if value is None:
            yield what, "skipped", limit, ""
            continue
        held = [value <= bound if sense == "<" else value >= bound for bound in (must, aim)]
        yield what, f"{value:.3g} {unit}".rstrip(), limit, "aim" if held[1] else "yes" if held[0] else "no"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--gigabytes", type=float, default=0)
    parser.add_argument("--minnow", type=int, default=0)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "release" / "bin")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--from", dest="kept", type=pathlib.Path)
    options = parser.parse_args()
    results = json.loads(options.kept.read_text()) if options.kept else measure(options)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    print("| What | Measured | Must reach | Reached |\n|---|---|---|---|")
    for row in rows(results):
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
