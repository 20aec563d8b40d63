#!/usr/bin/env python3
"""Measures what a deep bisect costs on Minnow, and how sure it is of a fault that comes and goes.

    tests/bench/BisectCost.py [--bin DIR] [--operations N] [--repeat N] [--intermittent N]

Cost: a tape of about 1,000 windows from minnow-errata, with an erratum that acts early, in the middle and late. Printed are
the packets issued to the bad target and the time of the whole bisect, each divided by those of one replay to it (packets: at
most 1.5 with snapshots), with and without snapshots. The operation that is named must be the one in which the erratum acts.
These windows take RTL some 80 us each, about as much as the good side's replay and a look at the states: time is printed, with that
of an observed bisect of one pass, which looks at nothing. It is held to 1.5 on a network: a tape of about 1,000 windows of
kws, on which nothing is wrong, so that all of it is played and looked at. Replay and bisect take turns; wall and
processor time (children's, too) are the best of --repeat each.

Intermittent: fence-overtake with another seed in every run. It may act in any store, so that the passes part in several
windows: the rate and the distribution are printed, and no place may be named.

One JSON object; exit code 1 if something is not as it should be. Not a part of CI.
"""
import argparse
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def run(command, *codes):
    """The report, wall and processor time."""
    def used():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime
    start, before = time.monotonic(), used()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode not in codes:
        sys.exit(f"{' '.join(command)}\nexit {done.returncode}, not one of {codes}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout), time.monotonic() - start, used() - before


def in_turns(repeat, **commands):
    """Of each command, by name: its report and the least wall and processor time."""
    best = {}
    for _ in range(repeat):
        for name, (command, codes) in commands.items():
            report, wall, processor = run(command, *codes)
            kept = best.get(name)
            best[name] = (report, min(wall, kept[1]), min(processor, kept[2])) if kept else (report, wall, processor)
    return best


def cost(options, scratch, tapeback, erratum, hit):
    bad = f"rtl:minnow?errata={erratum}"
    tape = str(scratch / f"{erratum}-{hit}.tape")
    program = [str(options.bin / "tests" / "minnow-errata"), erratum, "--hit", str(hit), "--late", str(options.operations - hit)]
    run([tapeback, "record", "--json", "--force", "--target", bad, "-o", tape, "--", *program], 0)
    info = run([tapeback, "info", tape, "--json"], 0)[0]
    bisect = [tapeback, "bisect", tape, "--good", "model:minnow", "--bad", bad, "--json"]
    results = in_turns(options.repeat, replay=([tapeback, "replay", tape, "--target", bad, "--json"], (0, 1)),
                       observed=([*bisect, "--runs", "1"], (1,)), snapshots=([*bisect, "--probe", "deep"], (1,)),
                       without=([*bisect, "--probe", "deep", "--no-snapshots"], (1,)))
    _, replay, replay_processor = results.pop("replay")
    row = {"erratum": erratum, "hit": hit, "windows": info["windows"], "packets": info["packets"], "replay_seconds": replay,
           "replay_processor_seconds": replay_processor}
    for name, (report, seconds, processor) in results.items():
        first = report["first_divergence"]
        row[name] = {"method": report["method"], "packets_ratio": report["packets_to_bad"] / info["packets"], "time_ratio": seconds / replay,
                     "processor_ratio": processor / replay_processor, "seconds": seconds, "probes": report["probes"],
                     "operation": first["occurrence"], "right": first["occurrence"] == hit}
    return row


def network(options, scratch, tapeback):
    """One pass over a sound network, all places looked at: nothing that differs ends it early."""
    tape = str(scratch / "network.tape")
    run([tapeback, "record", "--json", "--force", "--target", "rtl:minnow", "-o", tape, "--", str(options.bin / "minnow-run"), "--net", "kws",
         "--inferences", str(options.inferences)], 0)
    info = run([tapeback, "info", tape, "--json"], 0)[0]
    results = in_turns(options.repeat, replay=([tapeback, "replay", tape, "--target", "rtl:minnow", "--json"], (0,)),
                       bisect=([tapeback, "bisect", tape, "--good", "model:minnow", "--bad", "rtl:minnow", "--probe", "deep", "--runs", "1",
                                "--json"], (0,)))
    _, replay, replay_processor = results["replay"]
    report, seconds, processor = results["bisect"]
    return {"windows": info["windows"], "packets": info["packets"], "replay_seconds": replay, "seconds": seconds, "time_ratio": seconds / replay,
            "processor_ratio": processor / replay_processor, "packets_ratio": report["packets_to_bad"] / info["packets"],
            "probes": report["probes"]}


def intermittent(options, scratch, tapeback, number):
    """Stores overtaken by their fences in some runs."""
    hit = 3 + 2 * number
    tape = str(scratch / f"overtake-{number}.tape")
    program = [str(options.bin / "tests" / "minnow-errata"), "fence-overtake", "--hit", str(hit), "--late", "10"]
    run([tapeback, "record", "--json", "--force", "--target", "model:minnow", "-o", tape, "--", *program], 0)
    report, seconds, _ = run([tapeback, "bisect", tape, "--good", "model:minnow", "--bad",
                              f"rtl:minnow?errata=fence-overtake&jitter=64&seed={{run}}{number}", "--probe", "deep",
                              "--intermittent", "--max-replays", "300", "--measure-drains", "--json"], 0, 1)
    first = report["first_divergence"]
    return {"hit": hit, "seconds": seconds, "verdict": report["verdict"], "rate": report["rate"],
            "drain_effect": report["drain_effect"], "search": report["search"], "distribution": report["distribution"][:5], "operation": first and first["occurrence"], "notes": report["notes"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "release" / "bin")
    parser.add_argument("--operations", type=int, default=320)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--errata", default="requant-wrap,dma-4k-last-beat")
    parser.add_argument("--intermittent", type=int, default=2)
    parser.add_argument("--inferences", type=int, default=8)
    options = parser.parse_args()
    tapeback = str(options.bin / "tapeback")
    with tempfile.TemporaryDirectory(prefix="tb-bisect-") as folder:
        scratch = pathlib.Path(folder)
        rows = [cost(options, scratch, tapeback, erratum, max(1, int(options.operations * part)))
                for erratum in options.errata.split(",") if erratum for part in (0.03, 0.5, 0.95)]
        whole = network(options, scratch, tapeback)
        sometimes = [intermittent(options, scratch, tapeback, number) for number in range(options.intermittent)]
    wrong = [row for row in sometimes if len(row["distribution"]) > 1 and row["operation"] is not None]
    wrong += [whole] if whole["time_ratio"] > 1.5 else []
    wrong += [row for row in rows if not row["snapshots"]["right"] or row["snapshots"]["packets_ratio"] > 1.5]
    print(json.dumps({"cost": rows, "network": whole, "intermittent": sometimes, "not_as_it_should_be": wrong}, indent=2))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
