"""vfio: for real: Debian's kernel, its IOMMU and its VFIO in a virtual machine, on QEMU's edu and nvme behind PCIe root
ports.

One boot serves all: the guest runs the steps below and leaves what they wrote in the shared folder; the tests look at it
afterwards, and replay on the host what was recorded in the machine.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent / "support")]
import ScriptTest  # noqa: E402
import VirtualMachine  # noqa: E402

BUILD = ScriptTest.BUILD
TAPEBACK = BUILD / "bin" / "tapeback"
EXERCISE = BUILD / "bin" / "edu-exercise"
OPERATIONS = 400
MEDIUM = 1 << 20  # Of the NVMe disk.
PACKETS = 400  # On a tape, before anything is killed. All of them are compared in a replay.
FAULTS = ["dma-last-byte", "factorial", "irq-sticky", "liveness&after=20"]

GUEST = r"""
EDU=0000:01:00.0
SPARE=0000:02:00.0
THIRD=0000:03:00.0
VICTIM=0000:04:00.0
NVME=0000:05:00.0
DISK=0000:06:00.0
OTHERDISK=0000:07:00.0
OPS=@OPS@

step() { # NAME COMMAND…: runs it, keeps its output and its exit code
  name=$1; shift
  "$@" >"$name.out" 2>"$name.err" </dev/null
  echo $? >"$name.exit"
  echo "@@step $name $(cat "$name.exit")"
}
until_() { # CONDITION: waits until it holds, at most 30 seconds
  turns=0
  while ! eval "$1" >/dev/null 2>&1; do
    turns=$((turns + 1))
    [ $turns -lt 1500 ] || { echo "@@failed waiting for $1"; return 1; }
    usleep 20000
  done
}
recorded() { # TAPE: waits until a good part of a recording that goes on is in the shared folder, counted in packets
  until_ "[ -s $1.partial ]"
  turns=0
  until recover_ $1; do
    turns=$((turns + 1))
    [ $turns -lt 300 ] || { echo "@@failed waiting for $1"; return 1; }
    usleep 200000
  done
}
recover_() { # TAPE: whether a copy of what is there of it has a good number of packets
  tapeback recover --json --force $1.partial -o /tmp/probe.tape >/tmp/probe.json 2>/dev/null
  [ "$(grep -o '"packets_kept": *[0-9]*' /tmp/probe.json | grep -o '[0-9]*$')" -ge @PACKETS@ ] 2>/dev/null
}
bind() {
  echo vfio-pci >/sys/bus/pci/devices/$1/driver_override
  echo $1 >/sys/bus/pci/drivers_probe
}

step targets-before tapeback targets --json
step not-bound tapeback replay host.tape --target vfio:$EDU --json
step not-there tapeback replay host.tape --target vfio:0000:09:00.0 --json
step sysfs-registers tapeback replay registers.tape --target pci-sysfs:$EDU --json
bind $EDU
bind $SPARE
bind $THIRD
bind $VICTIM
bind $NVME
step targets tapeback targets --json
cat /sys/bus/pci/devices/$EDU/reset_method >methods-edu
cat /sys/bus/pci/devices/$NVME/reset_method >methods-nvme
step hal-vfio env TAPEBACK_VFIO_DEVICE=$EDU TAPEBACK_VFIO_NVME=$NVME hal-vfio

# Function reset of a device that can, after something was left in it.
step function-record tapeback record --json --target vfio:$NVME --description nvme.yaml -o function.tape -- register-loop 8 200 0
step function-dirty env TAPEBACK_TARGET=vfio:$NVME register-loop 0x14 2 0 0x460000
step function-reset tapeback replay function.tape --target vfio:$NVME --json

# Idle for its most part: it waits for an interrupt that does not come. Needed below.
tapeback record --json --target vfio:$NVME -o wait.tape -- register-loop 8 50 8 >wait.out 2>wait.err &
waiting=$!

step record tapeback record --json --target vfio:$EDU -o vm.tape -- edu-exercise --seed 3 --ops $OPS
step replay-own tapeback replay vm.tape --target vfio:$EDU --json
step replay-host tapeback replay host.tape --target vfio:$EDU --json
step record-intx tapeback record --json --target "vfio:$EDU?irq=intx" -o intx.tape -- edu-exercise --seed 4 --ops 100

# A program that drives VFIO by itself, and one that insists on mapping.
step plain-alone vfio-plain $EDU
step preload tapeback record --json --preload -o preload.tape -- vfio-plain $EDU --rounds 24
step insist tapeback record --json --preload -o insist.tape -- vfio-plain $EDU --insist
step replay-preload tapeback replay preload.tape --target vfio:$EDU --json
step hot tapeback record --json --preload -o hot.tape -- vfio-plain $EDU --rounds 2 --hot
step replay-hot tapeback replay hot.tape --target vfio:$EDU --json

# Command streams: through the C API, and a program that does not know of us.
bind $DISK
bind $OTHERDISK
step record-disk tapeback record --json --target vfio:$DISK --description nvme -o disk.tape -- nvme-exercise --seed 5 --ops 60
step preload-disk tapeback record --json --preload --description nvme -o preload-disk.tape -- nvme-plain --device $OTHERDISK --seed 5 --ops 60

# State that a reset which does nothing leaves behind.
step dirty env TAPEBACK_TARGET=vfio:$EDU edu-exercise --seed 9 --ops 40
step lying-reset tapeback replay host.tape --target vfio:$EDU --json

# Held by another process: recorded, so that the recorder is in the way too.
tapeback record --target vfio:$EDU -o held.tape -- edu-exercise --seed 11 --ops 100000 --only liveness >held.out 2>&1 &
held=$!
until_ 'ls -l /proc/$(pidof edu-exercise)/fd | grep -q "vfio/[0-9]"'
tries=0
while [ $tries -lt 100 ]; do
  tapeback replay registers.tape --target vfio:$EDU --json >busy.json 2>/dev/null
  echo $? >while-held.exit
  grep -q device-busy busy.json && break
  tries=$((tries + 1))
done
echo "@@step while-held $(cat while-held.exit)"
killall edu-exercise
wait $held

# Not root: no permission; too little memory that may be locked.
cp host.tape /tmp/host.tape
chmod 644 /tmp/host.tape
chmod 666 /dev/null
step no-permission su nobody -c "exec tapeback replay /tmp/host.tape --target vfio:$EDU --json"
chown nobody /dev/vfio/vfio /dev/vfio/[0-9]*
step memlock su nobody -c "ulimit -l 8; exec tapeback replay /tmp/host.tape --target vfio:$EDU --json"
chown root /dev/vfio/vfio /dev/vfio/[0-9]*

# An uncorrectable error on the link: while a recorded program waits, again while that tape is replayed, and in the middle
# of replaying a run that knew no error. VFIO offers the event for PCI Express devices only, which edu is not.
wait $waiting
echo $? >wait.exit
recoveries=0
recovered() { # The kernel is done with it; in this machine the link does not come up again by itself, so that it says "failed".
  recoveries=$((recoveries + 1))
  until_ '[ $(dmesg | grep -c "AER: device recovery") -ge $recoveries ]'
}
tapeback record --json --target vfio:$NVME -o bus-error.tape -- sh -c 'exec register-loop 8 10 300 >running.bus' >bus-error.out 2>bus-error.err &
recorder=$!
until_ "grep -q waiting running.bus"
echo "@@bus-error 1"
wait $recorder
echo $? >bus-error.exit
recovered
turn=2
for tape in bus-error wait; do
  tapeback replay $tape.tape --target vfio:$NVME --json >replay-$tape.out 2>replay-$tape.err &
  replayer=$!
  until_ "ls -l /proc/$replayer/fd | grep -q vfio-device && [ \$(ls /proc/$replayer/task | wc -l) -ge 2 ]" # It watches.
  usleep 300000
  echo "@@bus-error $turn"
  wait $replayer
  echo $? >replay-$tape.exit
  turn=$((turn + 1))
  recovered
done
step after-bus-error tapeback replay function.tape --target vfio:$NVME --json
dmesg | grep AER: >aer.log

# The recorder killed in the middle of a recording. What the program left in the device stays: edu's reset does nothing,
# so that this device is not used again.
tapeback record --target vfio:$VICTIM -o killed.tape -- edu-exercise --seed 5 --ops 100000 >killed.out 2>&1 &
recorder=$!
recorded killed.tape
kill -9 $recorder
wait $recorder
killall edu-exercise
until_ "! pidof edu-exercise"
step recover-killed tapeback recover killed.tape.partial -o recovered.tape

# With recording and without, in turns.
i=0
while [ $i -lt 5 ]; do
  for mode in on off; do
    start=$(cut -d' ' -f1 /proc/uptime)
    if [ $mode = on ]; then
      tapeback record --force --target vfio:$EDU -o turn.tape -- edu-exercise --seed 6 --ops 100 --gaps >turn.out 2>&1
    else
      TAPEBACK_TARGET=vfio:$EDU edu-exercise --seed 6 --ops 100 --gaps >turn.out 2>&1
    fi
    echo "$mode $? $start $(cut -d' ' -f1 /proc/uptime) $(grep gaps turn.out)" >>turns
  done
  i=$((i + 1))
done
echo "@@step turns 0"

# Unplugged in the middle of a recording, then of a replay.
tapeback record --json --target vfio:$SPARE -o unplug.tape -- edu-exercise --seed 7 --ops 100000 >unplug.out 2>unplug.err &
recorder=$!
recorded unplug.tape
echo "@@unplug"
wait $recorder
echo $? >unplug.exit
echo "@@step unplug $(cat unplug.exit)"

tapeback replay vm.tape --target vfio:$THIRD --json >unplug-replay.out 2>unplug-replay.err &
replayer=$!
until_ "ls -l /proc/$replayer/fd | grep -q vfio"
usleep 300000
echo "@@unplug-replay"
wait $replayer
echo $? >unplug-replay.exit
echo "@@step unplug-replay $(cat unplug-replay.exit)"

# An access that does not come back, logged on storage that outlives the machine.
cp recorder-test-model.so /tmp
LD_LIBRARY_PATH=/opt/tapeback/lib tapeback record --durable=may-hang --target "model:/tmp/recorder-test-model.so?timeout=600000" --description test-device.yaml \
  -o hang.tape -- recorder-scenarios hang >hang.out 2>&1 &
until_ "[ -s hang.tape.partial.durable ]"
logged() {
  tapeback recover --json --force hang.tape.partial -o /tmp/probe.tape >/tmp/probe.json 2>/dev/null
  grep -q '"packets_added": *1\b' /tmp/probe.json
}
until_ logged
echo "@@step hang $(cat hang.out | wc -l)"

# Last: the machine itself is killed in the middle of a recording.
tapeback record --target vfio:$EDU -o crash.tape -- edu-exercise --seed 8 --ops 100000 >crash.out 2>&1 &
recorded crash.tape
sync
echo "@@crash"
wait
"""


# As much of an NVMe controller as shows whether a reset reset it.
NVME_DESCRIPTION = """
tapeback-description: 1
name: nvme
version: "1"
spaces: [bar0]
registers:
  - {name: VS, space: bar0, offset: 0x08, width: 4, access: ro, class: identity}
  - {name: CC, space: bar0, offset: 0x14, width: 4, reset: 0}
fingerprint:
  - {register: VS}
  - {register: CC, value: 0}
"""


class VfioTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        reason = VirtualMachine.missing()
        if reason:
            raise unittest.SkipTest(f"no test machine: {reason}")
        cls.folder = tempfile.TemporaryDirectory(prefix="tapeback-vfio-")
        cls.share = pathlib.Path(cls.folder.name)
        cls.run_("record", "--target", "qemu:edu", "-o", cls.share / "host.tape", "--", EXERCISE, "--seed", "2", "--ops", OPERATIONS)
        cls.run_("record", "--target", "model:edu", "-o", cls.share / "registers.tape", "--", EXERCISE, "--seed", "2", "--ops", 100,
                 "--only", "liveness,ident,factorial-poll")
        (cls.share / "nvme.yaml").write_text(NVME_DESCRIPTION)
        shutil.copy(BUILD / "lib/tapeback/recorder-test-model.so", cls.share)
        shutil.copy(VirtualMachine.ROOT / "tests/recorder/programs/test-device.yaml", cls.share)
        programs = ("hal-vfio", "vfio-plain", "nvme-plain", "register-loop", "recorder-scenarios")
        image = VirtualMachine.buildImage(BUILD, extra=[BUILD / "bin" / "tests" / name for name in programs])
        devices = {f"edu{n}": "edu" for n in (1, 2, 3, 4)} | {
            "nvme1": "nvme,serial=tapeback",
            "nvme2": "nvme,serial=disk,drive=disk",
            "nvme3": "nvme,serial=other,drive=other",
        }
        drives = []
        for name in ("disk", "other"):
            with open(cls.share / name, "wb") as file:
                file.truncate(MEDIUM)
            drives += ["-drive", f"if=none,id={name},format=raw,file={cls.share / name}"]
        try:
            script = GUEST.replace("@OPS@", str(OPERATIONS)).replace("@PACKETS@", str(PACKETS))
            with VirtualMachine.Machine(image, cls.share, script, devices=devices, seconds=780,
                                        arguments=drives) as machine:
                cls.console = machine.console
                for turn in (1, 2, 3):
                    machine.waitFor(f"@@bus-error {turn}")
                    machine.monitor("pcie_aer_inject_error port5 DLP", expect="OK")
                machine.waitFor("@@unplug")
                machine.qmp("device_del", id="edu2")
                machine.waitFor("@@unplug-replay")
                machine.qmp("device_del", id="edu3")
                machine.waitFor("@@crash")
                machine.kill()
        finally:
            image.remove()

    @classmethod
    def tearDownClass(cls):
        if hasattr(cls, "folder"):
            if os.environ.get("TAPEBACK_KEEP"):
                shutil.copytree(cls.folder.name, os.environ["TAPEBACK_KEEP"], dirs_exist_ok=True)
            cls.folder.cleanup()

    @staticmethod
    def run_(*arguments, expect=0):
        result = subprocess.run([TAPEBACK, *map(str, arguments)], capture_output=True, text=True, timeout=300)
        if expect is not None and result.returncode != expect:
            raise AssertionError(f"tapeback {' '.join(map(str, arguments))} exited {result.returncode}, not {expect}:\n"
                                 f"{result.stdout[-3000:]}\n{result.stderr[-3000:]}")
        return result

    def text(self, name):
        path = self.share / name
        return path.read_text(errors="replace") if path.exists() else f"({name} is not there)\n" + "\n".join(self.console[-40:])

    def exitOf(self, step):
        return int(self.text(step + ".exit"))

    def json(self, step):
        return json.loads(self.text(step + ".out"))

    def checkStep(self, step, expected):
        self.assertEqual(self.exitOf(step), expected, f"{step}:\n{self.text(step + '.out')[-3000:]}\n{self.text(step + '.err')[-3000:]}")

    def replayOnHost(self, tape, target, expect):
        return json.loads(self.run_("replay", tape, "--target", target, "--json", expect=expect).stdout)

    def checkWhatIsThereReplays(self, tape):
        """A tape that lost its end: what is lost cannot be compared (exit 5), the rest must be the same."""
        result = self.run_("replay", tape, "--target", "model:edu", "--json", expect=None)
        self.assertIn(result.returncode, (0, 5), result.stderr)
        grades = json.loads(result.stdout)["grades"]
        for bad in ("mismatch", "order-violation", "timeout", "target-error", "consequential"):
            self.assertEqual(grades[bad], 0, bad)
        self.assertGreater(grades["exact"], 100)

    def test_tests_of_the_target_pass_in_the_machine(self):
        self.checkStep("hal-vfio", 0)
        closing = self.text("hal-vfio.out").strip().splitlines()[-1]
        self.assertRegex(closing, r"[1-9]\d* passed, 0 failed")
        for line in self.text("hal-vfio.out").splitlines():
            if line.startswith("skipped"):
                self.assertIn("objdump", line)  # What needs that runs on the host. All that needs a device runs here.

    def test_command_streams_from_the_machine_replay_on_another_controller(self):
        self.checkStep("record-disk", 0)
        self.checkStep("preload-disk", 0)
        for tape in ("disk.tape", "preload-disk.tape"):
            self.assertEqual(self.replayOnHost(self.share / tape, f"qemu:nvme?medium={MEDIUM}", 0)["verdict"], "match")
            # What is read from another disk is the first difference.
            report = self.replayOnHost(self.share / tape, f"qemu:nvme?medium={MEDIUM}&pattern=random", 1)
            self.assertEqual(report["first_divergence"]["kind"], "dma-completion")

    def test_a_recording_from_the_machine_replays_everywhere(self):
        self.checkStep("record", 0)
        self.checkStep("replay-own", 0)
        self.assertEqual(self.json("replay-own")["verdict"], "match")
        for target in ("qemu:edu", "model:edu"):
            self.assertEqual(self.replayOnHost(self.share / "vm.tape", target, 0)["verdict"], "match")

    def test_interrupts_by_intx_make_the_same_tape(self):
        self.checkStep("record-intx", 0)
        self.assertEqual(self.replayOnHost(self.share / "intx.tape", "model:edu", 0)["verdict"], "match")

    def test_a_recording_from_the_host_replays_in_the_machine(self):
        self.checkStep("replay-host", 0)
        self.assertEqual(self.json("replay-host")["verdict"], "match")

    def test_windows_and_grades_are_those_of_a_recording_on_qemu(self):
        same = self.share / "same.tape"
        self.run_("record", "--force", "--target", "qemu:edu", "-o", same, "--", EXERCISE, "--seed", "3", "--ops", OPERATIONS)
        there, here = (self.replayOnHost(tape, "model:edu", 0) for tape in (self.share / "vm.tape", same))
        self.assertEqual(there["windows"], here["windows"])
        self.assertEqual(there["packets"], here["packets"])
        self.assertEqual(sum(there["grades"].values()), sum(here["grades"].values()))
        self.assertEqual(there["grades"]["mismatch"], 0)

    def test_each_fault_diverges_at_the_same_place_as_in_a_recording_on_qemu(self):
        same = self.share / "faults.tape"
        self.run_("record", "--force", "--target", "qemu:edu", "-o", same, "--", EXERCISE, "--seed", "3", "--ops", OPERATIONS)
        for fault in FAULTS:
            with self.subTest(fault):
                target = "model:edu?fault=" + fault
                there, here = (self.replayOnHost(tape, target, 1)["first_divergence"] for tape in (self.share / "vm.tape", same))
                for key in ("window", "packet", "kind", "register", "field", "offset", "marker", "command"):
                    self.assertEqual(there[key], here[key], key)

    def test_the_reset_that_lies_is_told(self):
        self.assertEqual(self.text("methods-edu").split(), ["bus"])  # The only one that the kernel has for edu.
        self.checkStep("dirty", 0)
        registers = [difference["register"] for difference in self.json("lying-reset")["fingerprint"]["differences"]]
        self.assertIn("LIVENESS", registers)

    def test_the_hot_reset_that_lies_is_told(self):
        self.checkStep("hot", 0)
        self.checkStep("replay-hot", 0)
        self.assertEqual(self.json("replay-hot")["verdict"], "match")
        packets = [json.loads(line) for line in
                   self.run_("dump", self.share / "hot.tape", "--format", "jsonl").stdout.splitlines()[1:]]
        resets = [number for number, packet in enumerate(packets) if packet["kind"] == "reset"]
        self.assertEqual(len(resets), 1)
        self.assertIn("bus", self.run_("dump", self.share / "hot.tape").stdout.splitlines()[resets[0]])
        differences = [(difference["packet"], difference["register"]) for difference in
                       self.json("replay-hot")["fingerprint"]["differences"]]
        self.assertIn((resets[0], "DMA_CMD"), differences)

    def test_a_function_reset_that_resets_leaves_no_difference(self):
        self.assertIn("flr", self.text("methods-nvme").split())
        self.checkStep("function-record", 0)
        self.checkStep("function-dirty", 0)
        self.assertIn("0x460000", self.text("function-dirty.out"))  # It was there before the reset.
        self.checkStep("function-reset", 0)
        self.assertEqual(self.json("function-reset")["fingerprint"], {"compared": 2, "differences": []})

    def test_a_bus_error_in_the_middle_of_a_recording(self):
        self.assertIn(self.exitOf("bus-error"), (0, 5))
        output = self.json("bus-error")
        self.assertEqual(output["program"]["exit"], 3)  # Its wait failed; one that times out ends it with 0.
        self.assertEqual(output["outcome"], "failed")
        self.assertIn("bus-error", json.dumps(output["notes"]))
        self.assertIn("AER", self.text("bus-error.err"))
        self.run_("verify", self.share / "bus-error.tape")

    def test_a_bus_error_is_reproduced_by_a_replay_that_has_one_there(self):
        self.checkStep("replay-bus-error", 0)
        output = self.json("replay-bus-error")
        self.assertEqual((output["verdict"], output["reproduced"], output["signature_match"]), ("match", True, "exact"))

    def test_a_bus_error_in_the_middle_of_a_replay(self):
        self.assertEqual(self.exitOf("wait"), 0)
        self.checkStep("replay-wait", 4)
        error = self.json("replay-wait")["error"]
        self.assertEqual(error["code"], "bus-error")
        self.assertRegex(error["where"], r"packet \d+")
        self.assertIn("dmesg", error["hint"])

    def test_a_device_is_usable_after_a_bus_error(self):
        self.checkStep("after-bus-error", 0)
        self.assertEqual(self.text("aer.log").count("Uncorrected (Fatal) error message received"), 3)

    def test_errors_name_their_cure(self):
        for step, code, hint in (("not-bound", "not-bound", "driver_override"), ("not-there", "no-such-device", "targets"),
                                 ("no-permission", "no-permission", "chown"), ("memlock", "memlock-limit", "ulimit")):
            with self.subTest(step):
                self.checkStep(step, 2)
                error = self.json(step)["error"]
                self.assertEqual(error["code"], code)
                self.assertIn(hint, error["hint"])

    def test_a_device_held_by_another_process(self):
        self.assertEqual(self.exitOf("while-held"), 2)
        error = json.loads(self.text("busy.json"))["error"]
        self.assertEqual(error["code"], "device-busy")
        self.assertIn("process", error["message"])

    def test_targets_says_what_can_be_driven(self):
        self.checkStep("targets-before", 0)
        self.checkStep("targets", 0)
        for address in ("0000:01:00.0", "0000:05:00.0"):
            before, after = ({here["uri"]: here for scheme in self.json(step)["schemes"] for here in scheme["here"]}["vfio:" + address]
                             for step in ("targets-before", "targets"))
            self.assertEqual((before["usable"], before["code"]), (False, "not-bound"))
            self.assertIn("driver_override", before["hint"])
            self.assertEqual((after["usable"], after.get("why_not")), (True, None))

    def test_a_program_that_drives_vfio_by_itself(self):
        self.checkStep("plain-alone", 0)
        self.assertIn("registers mapped", self.text("plain-alone.out"))
        self.checkStep("preload", 0)
        record = self.json("preload")
        self.assertEqual(record["program"], {"exit": 0, "signal": None})
        self.run_("verify", self.share / "preload.tape")
        packets = [json.loads(line) for line in
                   self.run_("dump", self.share / "preload.tape", "--format", "jsonl").stdout.splitlines()[1:]]
        kinds = {}
        for packet in packets:
            kinds[packet["kind"]] = kinds.get(packet["kind"], 0) + 1
        # Per round: two transfers, two interrupts; per program: one mapping, one reset.
        self.assertEqual(kinds["dma-descriptor"], 48)
        self.assertEqual(kinds["dma-completion"], 48)
        self.assertEqual(kinds["interrupt"], 48)
        self.assertEqual(kinds["memory-map"], 1)
        self.assertEqual(kinds["reset"], 1)
        self.assertEqual(kinds["poll"], 24)
        self.checkStep("replay-preload", 0)

    def test_a_tape_of_it_replays_and_shows_faults(self):
        # The target of the preloaded program has a configuration space, which the others do not have.
        for target, code in (("qemu:edu", 0), ("model:edu", 0), ("model:edu?fault=dma-last-byte", 1),
                             ("model:edu?fault=factorial&operand=6", 1)):
            with self.subTest(target):
                self.replayOnHost(self.share / "preload.tape", target, code)

    def test_a_program_that_insists_on_mapping_is_refused_with_the_reason(self):
        record = self.json("insist")
        self.assertEqual(record["program"]["exit"], 3)
        self.assertIn("mapping the registers", self.text("insist.err"))
        self.assertIn("cannot be seen", json.dumps(record["notes"]))

    def test_registers_without_an_iommu(self):
        self.checkStep("sysfs-registers", 0)

    def test_the_recorder_killed(self):
        self.assertIn(self.exitOf("recover-killed"), (0, 5))
        self.run_("verify", self.share / "recovered.tape")
        self.checkWhatIsThereReplays(self.share / "recovered.tape")

    def test_unplugged_in_the_middle(self):
        output = self.json("unplug")
        self.assertIn(self.exitOf("unplug"), (0, 5))
        self.assertEqual(output["program"]["exit"], 3)  # edu-exercise: the target failed.
        self.run_("verify", self.share / "unplug.tape")

    def test_unplugged_in_the_middle_of_a_replay(self):
        self.checkStep("unplug-replay", 4)
        error = self.json("unplug-replay")["error"]
        self.assertEqual(error["code"], "device-unplugged")
        self.assertRegex(error["where"], r"packet \d+")

    def test_the_machine_killed_in_the_middle(self):
        self.run_("recover", self.share / "crash.tape.partial", "-o", self.share / "crashed.tape", expect=None)
        self.run_("verify", self.share / "crashed.tape")
        info = json.loads(self.run_("info", self.share / "crashed.tape", "--json").stdout)
        self.assertGreater(info["packets"], 0)
        self.checkWhatIsThereReplays(self.share / "crashed.tape")

    def test_the_machine_killed_in_the_middle_of_an_access(self):
        result = json.loads(self.run_("recover", self.share / "hang.tape.partial", "-o", self.share / "hung.tape", "--json",
                                      expect=5).stdout)
        self.assertEqual(result["packets_added"], 1)
        self.assertIn("bar0+0x100", json.dumps(result["notes"]))
        self.run_("verify", self.share / "hung.tape")
        packets = [json.loads(line) for line in
                   self.run_("dump", self.share / "hung.tape", "--format", "jsonl").stdout.splitlines()[1:]]
        pending = [packet for packet in packets if packet["completion"] == "pending"]
        self.assertEqual(len(pending), 1)
        self.assertEqual((pending[0]["kind"], int(pending[0]["address"], 0)), ("register-read", 0x100))

    def test_interleaved_runs_with_recording_on_and_off(self):
        rows = [line.split() for line in self.text("turns").splitlines()]
        self.assertEqual(len(rows), 10)
        seconds = {"on": [], "off": []}
        for mode, code, start, end, *_ in rows:
            self.assertEqual(code, "0")
            seconds[mode].append(float(end) - float(start))
        for mode in seconds:
            seconds[mode].sort()
        on, off = seconds["on"][2], seconds["off"][2]
        print(f"median of 5 runs: {on:.2f} s recorded, {off:.2f} s not: {on / off:.2f} times")
        for row in rows:
            print(" ".join(row))


if __name__ == "__main__":
    ScriptTest.main()
