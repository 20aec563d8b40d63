"""Two commands measured against each other: what the benchmarks of whole programs have in common. Either one run after
the other, in turns, or both side by side in slices of time, each stopped while the other goes on."""
import contextlib
import math
import os
import pathlib
import random
import resource
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time


def refuse(command, code, output):
    """A run that fails ends the benchmark: its time means nothing."""
    sys.exit(f"{' '.join(command)} exited with {code}:\n{output.decode(errors='replace')[-2000:]}")


def timed(command, environment=None):
    """Seconds of wall time, and of processor time of the process and all that it waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    done = subprocess.run(command, env=environment or os.environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    wall = time.monotonic() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        refuse(command, done.returncode, done.stdout)
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


class Sliced:
    """A command that runs only while its run_for() is called. It is a session of its own, and all processes of that session
    are stopped in between (a model's process is in a process group of its own). One that cannot be
    stopped ends the benchmark."""

    def __init__(self, command, environment=None):
        self.command = command
        self.environment = environment or os.environ
        self.process = None
        self.output = None
        self.watch = None
        self.elsewhere = set()  # Processes that a signal to the session's first group does not reach.
        self.wall = 0.0
        self.processor = 0.0

    def __enter__(self):
        self.output = tempfile.TemporaryFile()
        return self

    def __exit__(self, *_):
        if self.process is not None:
            self.signal(signal.SIGKILL, self.session())  # Those that a run which failed has left, too.
            self.process.wait()
        if self.watch is not None:
            os.close(self.watch)
        self.output.close()

    def ended(self):
        return self.process is not None and self.process.returncode is not None

    def run_for(self, seconds):
        """Goes on for `seconds`, or until the command's end where that comes first."""
        if self.process is None:
            started = time.monotonic()
            self.process = subprocess.Popen(self.command, env=self.environment, stdin=subprocess.DEVNULL, stdout=self.output,
                                            stderr=subprocess.STDOUT, start_new_session=True)
            self.watch = os.pidfd_open(self.process.pid)
        else:
            self.signal(signal.SIGCONT, self.elsewhere)
            started = time.monotonic()
            os.killpg(self.process.pid, signal.SIGCONT)
        exited, _, _ = select.select([self.watch], [], [], seconds)
        if not exited:
            os.killpg(self.process.pid, signal.SIGSTOP)
        self.wall += time.monotonic() - started
        if exited:
            self.reap()
        else:
            self.stop()

    def reap(self):
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.processor = usage.ru_utime + usage.ru_stime
        if self.process.returncode:
            self.output.seek(0)
            refuse(self.command, self.process.returncode, self.output.read())

    def stop(self):
        """Sees to it that all processes of the session are stopped; its group has been told already. Those elsewhere are a
        model's: they answer what that group asks, so that what they still do before they stop is nothing."""
        deadline = time.monotonic() + 5
        while running := [pid for pid, state in self.session().items() if state not in "TtZX"]:
            if time.monotonic() > deadline:
                sys.exit(f"processes {running} of {' '.join(self.command)} cannot be stopped: it cannot be measured in "
                         "slices (--slice 0 measures whole runs)")
            self.elsewhere.update(running)
            self.signal(signal.SIGSTOP, running)

    def signal(self, number, processes):
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def session(self):
        """Each process of the session, and its state as the kernel's letter (proc(5))."""
        states = {}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue  # It ended meanwhile.
            if int(fields[3]) == self.process.pid:
                states[int(folder.name)] = fields[0].decode()
        return states


def side_by_side(first, second, pairs, seconds):
    """`pairs` of timed() of both commands (each a command and its environment), both at the same time in slices of
    `seconds`: a machine's neighbours, which come and go in seconds, slow both down alike. What one has left after the
    other's end it runs alone."""
    results = []
    for number in range(pairs):
        with Sliced(*first) as a, Sliced(*second) as b:
            order = [b, a] if number % 2 else [a, b]
            while not all(run.ended() for run in order):
                for run in order:
                    if not run.ended():
                        run.run_for(seconds)
            results.append(((a.wall, a.processor), (b.wall, b.processor)))
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
