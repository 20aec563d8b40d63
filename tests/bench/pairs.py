"""Two commands measured against each other in turns: what the benchmarks of whole programs have in common."""
import math
import os
import random
import resource
import statistics
import subprocess
import sys
import time


def timed(command, environment=None):
    """Seconds of wall time, and of processor time of the process and all that it waited for. A run that fails ends the
    benchmark: its time means nothing."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    done = subprocess.run(command, env=environment or os.environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    wall = time.monotonic() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(command)} exited with {done.returncode}:\n{done.stdout.decode(errors='replace')[-2000:]}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def in_turns(first, second, pairs):
    """`pairs` of what both give, the first of them by turns, so that a machine that grows slower hits both alike."""
    results = []
    for number in range(pairs):
        if number % 2:
            b, a = second(), first()
        else:
            a, b = first(), second()
        results.append((a, b))
    return results


def trimmed_mean(ratios):
    """The geometric mean of the middle four fifths. The middle alone (the median) throws away a third of what pairs
    tell where noise is nearly normal, and a mean of all of them follows the one run in which the host took the core."""
    logs = sorted(math.log(ratio) for ratio in ratios)
    cut = len(logs) // 10
    return math.exp(statistics.fmean(logs[cut:len(logs) - cut]))


def interval(ratios, rounds=10000):
    """trimmed_mean() and its 95 % interval (bootstrap, seeded)."""
    chance = random.Random(1)
    means = sorted(trimmed_mean(chance.choices(ratios, k=len(ratios))) for _ in range(rounds))
    return {"ratio": round(trimmed_mean(ratios), 4), "low": round(means[int(rounds * 0.025)], 4),
            "high": round(means[int(rounds * 0.975)], 4)}


def compared(pairs, first, second):
    """What a benchmark prints of pairs of timed(): second against first, and the wall seconds under their names."""
    return {"pairs": len(pairs), "wall": interval([b[0] / a[0] for a, b in pairs]),
            "processor": interval([b[1] / a[1] for a, b in pairs]),
            first: [round(a[0], 3) for a, _ in pairs], second: [round(b[0], 3) for _, b in pairs]}
