#!/usr/bin/env python3
"""Records nvme-exercise on NVMe controllers and replays the tapes where data, memory, speed and controller differ.

usage: tests/e2e/NvmeCampaign.py [--build DIR] [--ops N] [--tapes N] [--vm] [--keep DIR]

On QEMU's controller: N tapes of as many commands, each replayed on the same medium, with memory shifted, in pieces, in
reverse, and with reads or writes throttled, so that completions come in another order. Every replay must
match. With another pattern on the medium every replay must diverge at a read, and on one of zeroes at the window, packet and
byte that a test works out of the tape by itself.
With --vm, in a virtual machine with Debian's kernel: the same commands through vfio:, and as a VFIO program that does not
know of us (record --preload); both tapes are replayed on the host as above. And a mmiotrace of Debian's own nvme driver,
imported and dumped with the names of the registers.
Prints a line for each; exits 1 if anything was otherwise.
"""
import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MEDIUM = 4 << 20
TARGET = f"qemu:nvme?pattern=index&medium={MEDIUM}"
ELSEWHERE = [["--relocate", layout] for layout in ("shift=0x100000", "fragment", "reverse")]
THROTTLED = ["&read-iops=300", "&write-iops=300"]  # So few that they take two to four times as long.
# Debian's driver and what it needs, in the order of loading.
MODULES = ["crct10dif_common", "crct10dif_generic", "crc-t10dif", "crc64", "crc64_rocksoft_generic", "crc64-rocksoft", "t10-pi",
           "nvme-core"]
GUEST = r"""
NVME=0000:01:00.0
PLAIN=0000:02:00.0
OWN=0000:03:00.0
step() {
  name=$1; shift
  "$@" >"$name.out" 2>"$name.err" </dev/null
  echo $? >"$name.exit"
  echo "@@step $name $(cat "$name.exit")"
}
bind() {
  echo $2 >/sys/bus/pci/devices/$1/driver_override
  echo $1 >/sys/bus/pci/drivers_probe
}
bind $NVME vfio-pci
bind $PLAIN vfio-pci
step record tapeback record --json --target vfio:$NVME --description nvme -o vfio.tape -- nvme-exercise --seed @SEED@ --ops @OPS@
step preload tapeback record --json --preload --description nvme -o preload.tape -- nvme-plain --device $PLAIN --seed @PRELOADSEED@ --ops @OPS@
mount -t tracefs none /sys/kernel/tracing
cd /sys/kernel/tracing
echo 20000 >buffer_size_kb
echo mmiotrace >current_tracer
cat trace_pipe >/tmp/mmio.txt &
reader=$!
insmod /mnt/nvme.ko
turns=0
bind $OWN nvme
until [ -e /sys/block/nvme0n1 ] || [ $turns -gt 300 ]; do
  turns=$((turns + 1))
  usleep 100000
done
dd if=/dev/zero of=/tmp/none bs=1 count=1 2>/dev/null
rmmod nvme
kill $reader
wait $reader
echo nop >current_tracer
cd /mnt
cp /tmp/mmio.txt .
echo "@@step mmiotrace $(wc -l <mmio.txt)"
"""


class Campaign:
    def __init__(self, build, folder, ops):
        self.build, self.folder, self.ops, self.bad = build, pathlib.Path(folder), ops, 0

    def tapeback(self, *arguments):
        begin = time.monotonic()
        result = subprocess.run([self.build / "bin/tapeback", *map(str, arguments)], capture_output=True, text=True, timeout=1800)
        return result, time.monotonic() - begin

    def say(self, good, text):
        self.bad += not good
        print(("  " if good else "X ") + text, flush=True)

    def record(self, seed, depth):
        tape = self.folder / f"{seed}.tape"
        result, seconds = self.tapeback("record", "--json", "--target", TARGET, "-o", tape, "--", self.build / "bin/nvme-exercise",
                                        "--seed", seed, "--ops", self.ops, "--depth", depth)
        self.say(result.returncode == 0, f"seed {seed}: recorded {self.ops} commands in {seconds:.1f} s"
                 + (f": {result.stdout}{result.stderr}" if result.returncode else ""))
        return tape

    def replay(self, tape, target, more=(), diverges=False):
        result, seconds = self.tapeback("replay", tape, "--json", "--target", target, *more)
        try:
            report = json.loads(result.stdout)
        except json.JSONDecodeError:
            self.say(False, f"{tape.name} on {target}: {result.stdout}{result.stderr}")
            return
        verdict, first = report.get("verdict"), report.get("first_divergence") or {}
        good = verdict == ("divergence" if diverges else "match")
        # Of another medium nothing but data that was read can tell.
        if diverges:
            good &= first.get("kind") == "dma-completion"
        place = f", window {first['window']}, packet {first['packet']}, byte {first.get('offset')}: {first.get('command_text', '')}" \
            if first else f", {report.get('rules', {}).get('substitute', 0)} values stood for others (completions in other places)"
        self.say(good, f"{tape.name} on {target} {' '.join(more)}: {verdict} in {seconds:.1f} s{place}")

    def everywhere(self, tape, target, other):
        self.replay(tape, target)
        for more in ELSEWHERE:
            self.replay(tape, target, more)
        for throttled in THROTTLED:
            self.replay(tape, target + throttled)
        self.replay(tape, other, diverges=True)
        self.place(tape)

    def place(self, tape):
        """Whether another medium shows at the window, packet and byte that follow from the tape and the pattern alone."""
        name = "nvme: other data on the medium shows where it is first read"
        environment = dict(os.environ, TAPEBACK_NVME_TAPE=str(tape), TAPEBACK_NVME_MEDIUM=f"medium={MEDIUM}")
        result = subprocess.run([self.build / "bin/tests/e2e-nvme-loop", f"--test-case={name}"], capture_output=True, text=True,
                                timeout=600, env=environment)
        good = result.returncode == 0 and "e2e-nvme-loop: 1 passed, 0 failed, 0 skipped" in result.stdout
        self.say(good, f"{tape.name} on a medium of zeroes: the first difference is where the tape and the pattern say"
                 + ("" if good else f": {result.stdout}{result.stderr}"))

    def count(self, tape):
        """How often completions come in another order than their commands."""
        result, _ = self.tapeback("dump", "--json", "--limit", 10_000_000, tape)
        counts = collections.Counter()
        last = {}
        for packet in json.loads(result.stdout)["packets"]:
            counts[packet.get("kind")] += 1
            if packet.get("kind") == "command-done":
                queue = packet["queue"]
                counts["overtaken"] += packet["index"] < last.get(queue, -1)
                last[queue] = max(packet["index"], last.get(queue, -1))
        self.say(counts["submit"] == counts["command-done"],
                 f"{tape.name}: {sum(counts[k] for k in counts if k != 'overtaken')} packets, {counts['submit']} commands, "
                 f"{counts['command-done']} completions ({counts['overtaken']} overtaken), {counts['dma-descriptor']} transfers")

    def machine(self):
        sys.path[:0] = [str(ROOT / "tests/vm"), str(ROOT / "tests/support")]
        import VirtualMachine
        if reason := VirtualMachine.missing():
            self.say(False, f"no virtual machine: {reason}")
            return
        VirtualMachine.MODULES += MODULES
        image = VirtualMachine.buildImage(self.build, extra=[self.build / "bin/tests/nvme-plain"])
        (self.folder / "nvme.ko").write_bytes(image.modules["nvme"].read_bytes())
        arguments = []
        for name in ("disk", "plain", "own"):
            with open(self.folder / name, "wb") as file:
                for word in range(MEDIUM // 8):
                    file.write(word.to_bytes(8, "little"))
            arguments += ["-drive", f"if=none,id={name},format=raw,file={self.folder / name}"]
        script = GUEST.replace("@OPS@", str(self.ops)).replace("@SEED@", "21").replace("@PRELOADSEED@", "22")
        devices = {name + "device": f"nvme,serial=vm-{name},drive={name}" for name in ("disk", "plain", "own")}
        try:
            # The disks come before the devices that refer to them.
            with VirtualMachine.Machine(image, self.folder, script, devices=devices, seconds=900, arguments=arguments) as machine:
                status = machine.finish()
                self.say(status == 0, f"the machine ended with {status}" + ("" if status == 0 else ":\n" + machine.tail()))
        finally:
            image.remove()
        for step in ("record", "preload"):
            code = (self.folder / f"{step}.exit").read_text().strip()
            out, err = ((self.folder / f"{step}.{end}").read_text() for end in ("out", "err"))
            good = code == "0" and json.loads(out).get("outcome") == "passed"
            self.say(good, f"vm {step}: " + (err.strip() if good else f"exit {code}: {out}{err}"))
        for tape in ("vfio", "preload"):
            path = self.folder / f"{tape}.tape"
            if path.exists():
                self.count(path)
                self.everywhere(path, TARGET, f"qemu:nvme?pattern=zero&medium={MEDIUM}")
        self.importTrace()

    def importTrace(self):
        trace, tape = self.folder / "mmio.txt", self.folder / "mmio.tape"
        result, _ = self.tapeback("import", "--json", "--from", "mmiotrace", "--description", "nvme", trace, "-o", tape)
        self.say(result.returncode == 0, f"mmiotrace of {len(trace.read_text().splitlines())} lines imported: exit {result.returncode} "
                 + (result.stdout + result.stderr if result.returncode else ""))
        result, _ = self.tapeback("dump", tape)
        named = [name for name in ("CAP_LO", "CC", "CSTS", "AQA", "ASQ_LO", "ACQ_LO", "SQ0TDBL", "CQ0HDBL") if f" {name} (" in result.stdout]
        accesses = sum("register-" in line for line in result.stdout.splitlines())
        self.say(len(named) == 8, f"mmiotrace: {accesses} accesses, named {', '.join(named)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build/release", type=pathlib.Path)
    parser.add_argument("--ops", default=2000, type=int)
    parser.add_argument("--tapes", default=3, type=int)
    parser.add_argument("--vm", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tapeback-nvme-") as folder:
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
        campaign = Campaign(options.build.resolve(), (options.keep or pathlib.Path(folder)).resolve(), options.ops)
        for number in range(options.tapes):
            tape = campaign.record(number + 1, (4, 16, 1)[number % 3])
            campaign.count(tape)
            campaign.everywhere(tape, TARGET, f"qemu:nvme?pattern=random&medium={MEDIUM}")
        if options.vm:
            campaign.machine()
        print("as it should be" if not campaign.bad else f"{campaign.bad} not as they should be (marked X)")
        return campaign.bad != 0


if __name__ == "__main__":
    sys.exit(main())
