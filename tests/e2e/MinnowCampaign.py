#!/usr/bin/env python3
"""Replays many Minnow tapes where time, speed and memory differ, and says what diverged that should not have.

usage: tests/e2e/MinnowCampaign.py [--build DIR] [--tapes N] [--errata N] [--jobs N] [--first N] [--no-layouts]

False divergences: records N tapes (minnow-stress, minnow-run and minnow-loops, seed by seed, on RTL with and without
jitter and on the model at several speeds of access) and replays each on RTL with other jitter seeds, on models of
other speeds, and with its memory shifted, fragmented and reversed. Every replay must match.
Missed divergences: records each erratum of the RTL in minnow-errata with N seeds, and replays on the model with
other speeds and layouts, too. Where the program's own checks failed, every replay must diverge.
Prints a table; exits 1 if anything was otherwise.
"""
import argparse
import collections
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAYOUTS = ["shift=0x100000", "fragment", "reverse"]
ERRATA = [
    ("dma-4k-last-beat", ""),
    ("requant-wrap", ""),
    ("stale-scratchpad", ""),
    ("counter-stall", ""),
    ("reset-head", ""),
    ("fence-overtake", "&jitter=256&seed=3"),
    ("wrap-full-hang", ""),
    ("chain-prefetch", ""),
]


def program(n):
    """The n-th workload."""
    kind, seed = n % 4, str(n // 4 + 1)
    if kind == 0:
        return "minnow-stress", ["bin/minnow-stress", "--seed", seed]
    if kind == 1:
        return "minnow-loops", ["bin/tests/minnow-loops", "--seed", seed]
    if kind == 2:
        ring = str(8 << (n // 4 % 4))
        return "minnow-run", ["bin/minnow-run", "--net", "ad", "--seed", seed, "--ring", ring]
    return "minnow-stress errors", ["bin/minnow-stress", "--seed", str(1000 + n), "--commands", "120"]


def recorded_on(n):
    return [
        "rtl:minnow",
        f"rtl:minnow?jitter=64&seed={n}",
        "model:minnow?access-time=30",
        "model:minnow?access-time=1000&memory-latency=200",
        f"rtl:minnow?latency=40&jitter=200&seed={n}",
    ][n // 4 % 5]


def replayed_on(n, layouts):
    """Target and further options."""
    plain = [
        f"rtl:minnow?jitter=100&seed={n + 7}",
        "rtl:minnow?latency=2",
        "model:minnow",
        "model:minnow?access-time=1000&memory-latency=10",
        "model:minnow?access-time=10&memory-latency=1000",
    ]
    moved = [("model:minnow?access-time=300", layout) for layout in LAYOUTS] if layouts else []
    return [(target, None) for target in plain] + moved


class Campaign:
    def __init__(self, build, folder, layouts):
        self.build, self.folder, self.layouts = build, folder, layouts

    def tapeback(self, *arguments):
        command = [str(self.build / "bin/tapeback"), *map(str, arguments)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=900)
        return result, command

    def record(self, name, target, words):
        tape = self.folder / f"{name}.tape"
        words = [str(self.build / words[0]), *words[1:]]
        result, command = self.tapeback("record", "--json", "--force", "--target", target, "-o", tape, "--", *words)
        if result.returncode:
            sys.exit(f"{' '.join(command)}\nexit {result.returncode}\n{result.stdout}{result.stderr}")
        return tape, json.loads(result.stdout)

    def replay(self, tape, target, layout):
        moved = ["--relocate", layout] if layout else []
        result, command = self.tapeback("replay", tape, "--target", target, *moved, "--json")
        try:
            output = json.loads(result.stdout)
        except ValueError:
            sys.exit(f"{' '.join(command)}\nexit {result.returncode}\n{result.stdout}{result.stderr}")
        return output, command

    def false(self, n):
        """(workload, replays, packets, rules, what diverged)"""
        name, words = program(n)
        tape, _ = self.record(f"t{n}", recorded_on(n), words)
        replays = packets = 0
        rules, wrong = collections.Counter(), []
        for target, layout in replayed_on(n, self.layouts):
            output, command = self.replay(tape, target, layout)
            replays += 1
            packets += output.get("packets_replayed", 0)
            rules.update(output.get("rules", {}))
            if output["verdict"] != "match":
                first = (output.get("divergences") or [{}])[0].get("text") or output.get("error")
                wrong.append(f"{' '.join(words)} recorded on {recorded_on(n)}, on {target} memory {layout or 'as recorded'}: "
                             f"{output['verdict']}: {first}")
        if not wrong:
            tape.unlink()
        return name, replays, packets, rules, wrong

    def missed(self, erratum, options, seed):
        """(erratum, whether it acted, replays, what matched)"""
        words = ["bin/tests/minnow-errata", erratum, "--hit", "5", "--late", "20", "--seed", str(seed)]
        bad = f"rtl:minnow?errata={erratum}{options}"
        tape, recorded = self.record(f"e-{erratum}-{seed}", bad, words)
        acted = recorded["program"]["exit"] == 1
        replays, wrong = 0, []
        if acted:
            for target, layout in replayed_on(seed, self.layouts):
                output, _ = self.replay(tape, target, layout)
                replays += 1
                if output["verdict"] != "divergence":
                    wrong.append(f"{' '.join(words)} recorded on {bad}, on {target} memory {layout or 'as recorded'}: "
                                 f"{output['verdict']}: {output.get('error')}")
        tape.unlink()
        return erratum, acted, replays, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--tapes", type=int, default=200)
    parser.add_argument("--errata", type=int, default=5, help="seeds of each erratum")
    parser.add_argument("--first", type=int, default=0, help="the first tape's number")
    parser.add_argument("--no-layouts", action="store_true", help="memory as recorded only")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    wrong = []
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        campaign = Campaign(arguments.build.resolve(), pathlib.Path(folder), not arguments.no_layouts)
        totals, rules = collections.defaultdict(lambda: [0, 0, 0, 0]), collections.Counter()
        numbers = range(arguments.first, arguments.first + arguments.tapes)
        for name, replays, packets, decided, diverged in pool.map(campaign.false, numbers):
            row = totals[name]
            for i, value in enumerate((1, replays, packets, len(diverged))):
                row[i] += value
            rules.update(decided)
            wrong += diverged
            for line in diverged:
                print(f"false divergence: {line}", flush=True)
        for name, (tapes, replays, packets, bad) in sorted(totals.items()):
            print(f"{name}: {tapes} tapes, {replays} replays, {packets:,} packets, {bad} false divergences")
        print("decided by: " + ", ".join(f"{count:,} {rule}" for rule, count in rules.most_common()), flush=True)
        cases = [(name, options, seed) for name, options in ERRATA for seed in range(1, arguments.errata + 1)]
        found = collections.defaultdict(lambda: [0, 0, 0, 0])
        for erratum, acted, replays, missed in pool.map(lambda case: campaign.missed(*case), cases):
            row = found[erratum]
            for i, value in enumerate((1, acted, replays, len(missed))):
                row[i] += value
            wrong += missed
            for line in missed:
                print(f"missed divergence: {line}", flush=True)
        for erratum, (tapes, acted, replays, missed) in found.items():
            print(f"{erratum}: {tapes} tapes, acted in {acted}, {replays} replays, {missed} missed")
            if not acted:
                wrong.append(f"{erratum} never acted")
    print(f"{len(wrong)} of all were not as they should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
