#!/usr/bin/env python3
"""One stamped record against an LTTng-UST event of equal payload, in snapshot mode, in one run of a recorded program.

    tests/bench/LttngPeer.py [--bin DIR]
    tests/bench/LttngPeer.py --triggers [--most N]

With --triggers, LTTng's trigger path instead, beside `trigger-load`: what an event costs the program with 0 to 1,000
triggers whose filter never holds, and the throughput that is left of that without. LTTng looks at a trigger where
the event is emitted, Tapeback in its collector.

"mark": tb_mark, one record stamped once, against an event with the same name; "access": tb_write32, one record stamped
twice, and its target's work, against an event of kind, address and value; "event": a record of those, stamped once,
without the C API around it.

Needs Debian's lttng-tools and liblttng-ust-dev (the benchmark is built when CMake finds them). Prints one JSON object;
with "skipped" and the reason where LTTng is not there. Starts a session daemon if none runs, and ends it again.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def skip(reason):
    print(json.dumps({"benchmark": "lttng-peer", "skipped": reason}))
    sys.exit(0)


def run(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout.decode(errors='replace')}")
    return done.stdout.decode(errors="replace")


def triggers(bench, most):
    """Throughput with so many triggers against that without: medians of three runs."""
    def event():
        return json.loads(run(str(bench), "--emit"))["event_ns"]
    armed, curve, costs = 0, {}, {}
    for count in [n for n in (0, 1, 10, 100, 1000) if n <= most]:
        for armed in range(armed, count):
            run("lttng", "add-trigger", "--name", f"never{armed}", "--condition=event-rule-matches", "--type=user",
                "--name=tapeback_bench:access", f"--filter=value == {10**9 + armed}", "--action=notify")
        armed = count
        costs[count] = statistics.median(event() for _ in range(3))
        curve[str(count)] = round(costs[0] / costs[count], 3)
    return {"benchmark": "lttng-triggers", "ns_per_event": {str(n): cost for n, cost in costs.items()},
            "throughput_by_armed_triggers": curve}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "release" / "bin")
    parser.add_argument("--triggers", action="store_true", help="LTTng's triggers instead")
    parser.add_argument("--most", type=int, default=1000, metavar="N", help="at most so many of them")
    options = parser.parse_args()
    bench = options.bin / "bench" / "lttng-bench"
    if not shutil.which("lttng-sessiond") or not shutil.which("lttng"):
        skip("lttng-tools is not installed")
    if not bench.exists():
        skip("lttng-bench was not built (liblttng-ust-dev)")
    with tempfile.TemporaryDirectory(prefix="tb-lttng-") as scratch:
        os.environ["LTTNG_HOME"] = scratch
        pid = os.path.join(scratch, "sessiond.pid")
        ours = subprocess.run(["lttng-sessiond", "--daemonize", "--no-kernel", "--pidfile", pid],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0
        name = f"tapeback-{os.getpid()}"
        try:
            run("lttng", "create", name, "--snapshot", "--output", os.path.join(scratch, "trace"))
            run("lttng", "enable-event", "--session", name, "--userspace", "tapeback_bench:access,tapeback_bench:mark")
            run("lttng", "start", name)
            if options.triggers:
                print(json.dumps(triggers(bench, options.most)))
            else:
                out = pathlib.Path(scratch) / "figures.json"
                measured = subprocess.run([str(options.bin / "tapeback"), "record", "--json", "--target", "null:", "-o",
                                           os.path.join(scratch, "peer.tape"), "--", str(bench), str(out)],
                                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                          check=False)
                if measured.returncode:  # A figure that cannot be had is not one that was skipped.
                    sys.exit(f"lttng-bench failed ({measured.returncode}): {measured.stderr.decode(errors='replace')}")
                print(out.read_text().strip())
            run("lttng", "destroy", name, "--no-wait")
        except RuntimeError as error:
            skip(str(error).strip())
        finally:
            if ours and os.path.exists(pid):
                os.kill(int(pathlib.Path(pid).read_text()), signal.SIGTERM)


if __name__ == "__main__":
    main()
