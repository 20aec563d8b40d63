#!/usr/bin/env python3
"""Flight mode and live triggers as a user runs them: captures replay with the grades of the whole tape, or refuse with
the reason; mistakes are found before anything is launched; events reach other recordings."""
import json
import pathlib
import signal as signals
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import ScriptTest  # noqa: E402

BIN = ScriptTest.BUILD / "bin"
TAPEBACK = str(BIN / "tapeback")
EDU = [str(BIN / "edu-exercise"), "--seed", "5", "--ops", "150", "--keep-going"]
SCENARIOS = str(BIN / "tests" / "recorder-scenarios")
TEST_MODEL = f"model:{ScriptTest.BUILD / 'lib' / 'tapeback' / 'recorder-test-model.so'}"
TEST_DESCRIPTION = str(ScriptTest.ROOT / "tests" / "recorder" / "programs" / "test-device.yaml")
MINNOW = [str(BIN / "minnow-stress"), "--seed", "2", "--commands", "150", "--no-errors", "--no-resets"]


class FlightLoopTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.path = pathlib.Path(self.directory.name)

    def run_json(self, *command, expect=(0,)):
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=120)
        self.assertIn(done.returncode, expect, f"{command}\n{done.stdout}\n{done.stderr}")
        return json.loads(done.stdout)

    def record(self, target, program, *options, out="full.tape", expect=(0,)):
        return self.run_json(TAPEBACK, "record", "--json", "--target", target, "-o", self.path / out,
                             "--event-directory", self.events(), *options, "--", *program, expect=expect)

    def events(self):
        directory = self.path / "events"
        return directory

    def trig(self, text):
        path = self.path / "t.trig"
        path.write_text(text)
        return path

    def replay(self, tape, target, *options, expect=(0,)):
        return self.run_json(TAPEBACK, "replay", "--json", "--digests", self.path / tape, "--target", target,
                             *options, expect=expect)

    def packets(self, tape):
        """Without numbers: those are of the tape they are on."""
        found = self.run_json(TAPEBACK, "dump", "--json", "--limit", "100000", self.path / tape)["packets"]
        for packet in found:
            for key in ("packet", "window", "link"):
                packet.pop(key, None)
        return found

    def shared(self, capture):
        """A capture's own packets: no prefix, and not the word that packets are missing in front."""
        return [p for i, p in enumerate(self.packets(capture))
                if "prefix" not in p.get("flags", []) and not (i == 0 and p["kind"] == "loss")]

    def check_same_grades(self, event, target, faulty=()):
        """The capture's packets get the grades that they get on the whole tape, on a good target and a faulty one."""
        capture = pathlib.Path(event["tape"]).name
        # The capture's packets follow the word of what is missing in front, if there is one, and the prefix.
        shift = len(self.packets(capture)) - event["packets"]
        good = self.replay(capture, target)
        self.assertEqual(good["verdict"], "match")
        self.assertEqual(good["divergences"], [])
        self.assertEqual(good["packets_replayed"], good["packets"])
        seen = 0
        for bad in faulty:
            whole, part = (self.replay(tape, bad, expect=(0, 1))["divergences"] for tape in ("full.tape", capture))
            first, last = event["first"], event["last"]
            expected = [(d["packet"] - first, d["grade"], d["rule"]) for d in whole if first <= d["packet"] <= last]
            # The list ends at sixteen, which a whole tape reaches sooner.
            if len(whole) < 16:
                self.assertEqual([(d["packet"] - shift, d["grade"], d["rule"]) for d in part], expected, bad)
                seen += len(expected)
        self.assertTrue(seen or not faulty)

    def test_edu_capture_of_a_stream_replays_as_the_whole(self):
        trig = self.trig('trigger late { when marker count 90 { fire "here"; capture pre 300 packets post 100 packets; } }')
        told = self.record("model:edu", EDU, "--trigger", trig)
        capture = [e for e in told["triggers"]["events"] if e["action"] == "capture"]
        self.assertEqual(len(capture), 1)
        self.assertEqual((capture[0]["pre"], capture[0]["post"], capture[0]["packets"]), (300, 100, 401))
        self.assertTrue(capture[0]["replays"], capture[0])
        self.assertEqual(pathlib.Path(capture[0]["tape"]).name, "full-late-1.tape")
        self.check_same_grades(capture[0], "model:edu",
                               [f"model:edu?fault=factorial&operand={n}" for n in range(1, 9)])
        # Exactly those packets of the whole tape.
        whole = self.packets("full.tape")
        self.assertEqual(self.shared("full-late-1.tape"), whole[capture[0]["first"]:capture[0]["last"] + 1])
        # And what trigger run makes of the tape.
        out = self.path / "offline"
        out.mkdir()
        run = self.run_json(TAPEBACK, "trigger", "run", "--json", trig, self.path / "full.tape", "-o", out)
        offline = [f for f in run["tapes"][0]["fired"] if f["action"] == "capture"]
        for key in ("packet", "time", "first", "last", "pre", "post", "pre_short", "post_short"):
            self.assertEqual(offline[0][key], capture[0][key], key)

    def grades_of(self, tape, target, first, last):
        """How many packets of [first, last] got which grade, by which rule, in a replay of all up to there."""
        until = [self.run_json(TAPEBACK, "replay", "--json", self.path / tape, "--target", target, "--until", f"p{packet}",
                               expect=(0, 1)) if packet >= 0 else {"grades": {}, "rules": {}} for packet in (first - 1, last)]
        before, whole = ({(kind, name): n for kind in ("grades", "rules") for name, n in told[kind].items()} for told in until)
        counts = {name: n - before.get(name, 0) for name, n in whole.items()}
        return {name: n for name, n in counts.items() if n}

    def check_against_stream(self, capture, stream, target):
        """The capture's packets are those that a stream tape of the same seed has there, and get its grades, or others
        where they are others'. Returns the grades."""
        name = pathlib.Path(capture["tape"]).name
        own, whole = self.packets(name), self.packets(stream)
        shift = len(own) - capture["packets"]
        for packet in own + whole:
            for key in ("issue", "complete", "flags"):
                packet.pop(key, None)
        first, last = capture["first"], capture["last"]
        self.assertEqual(own[shift:], whole[first:last + 1])
        grades = self.grades_of(name, target, shift, len(own) - 1)
        self.assertEqual(sum(n for (kind, _), n in grades.items() if kind == "grades"), capture["packets"])
        self.assertEqual(grades, self.grades_of(stream, target, first, last))
        return grades

    def test_edu_flight_evicts_and_gives_the_grades_of_the_stream(self):
        program = [EDU[0], "--seed", "5", "--ops", "1000", "--keep-going"]
        self.record("model:edu", program, "--tick", "0", out="stream.tape")
        trig = self.trig('trigger late { when marker count 985 { fire "here"; capture pre 250 packets post 40 packets; } }')
        told = self.record("model:edu", program, "--tick", "0", "--flight", "300p", "--trigger", trig, out="flight.tape")
        self.assertFalse((self.path / "flight.tape").exists())
        # Most of the run is gone, many times what was to be kept; what a capture begins with is not.
        self.assertGreaterEqual(told["history"]["evicted"], 10 * 300, told["history"])
        capture, = [e for e in told["triggers"]["events"] if e["action"] == "capture"]
        self.assertEqual((capture["pre"], capture["post"], capture["pre_short"]), (250, 40, False))
        self.assertTrue(capture["replays"], capture)
        self.assertLess(capture["prefix"], told["history"]["packets"])
        self.replay("flight-late-1.tape", "model:edu")
        grades = self.check_against_stream(capture, "stream.tape", "model:edu?fault=factorial")
        self.assertGreater(grades["grades", "mismatch"], 0)
        self.assertGreater(grades["grades", "exact"], 0)
        # Another place of the stream has other grades: the comparison sees a difference.
        self.assertNotEqual(grades, self.grades_of("stream.tape", "model:edu?fault=factorial", capture["first"] - 100,
                                                   capture["last"]))

    def test_minnow_flight_from_a_pinned_prefix_gives_the_grades_of_the_stream_and_refuses_without_it(self):
        program = [*MINNOW, "--commands", "1000"]
        trig = self.trig('trigger late { when submit count 800 { fire "here"; capture pre 150 packets post 50 packets; } }')
        self.record("model:minnow", program, "--tick", "0", out="stream.tape")
        flight = ("--tick", "0", "--flight", "200p", "--trigger", trig)
        told = self.record("model:minnow", program, *flight, out="pinned.tape")
        capture, = [e for e in told["triggers"]["events"] if e["action"] == "capture"]
        # No place in the run can be restored: everything in front of the capture is pinned.
        self.assertEqual((capture["replays"], capture["prefix"]), (True, capture["first"]))
        self.replay("pinned-late-1.tape", "model:minnow")
        self.check_against_stream(capture, "stream.tape", "model:minnow")
        # A megabyte has no room for the prefix: it goes, many times the history, and the capture says what is missing.
        told = self.record("model:minnow", program, *flight, "--flight-memory", "1MiB", out="small.tape")
        self.assertGreaterEqual(told["history"]["evicted"], 10 * 200, told["history"])
        self.assertGreater(told["history"]["prefix_dropped"], 0)
        capture, = [e for e in told["triggers"]["events"] if e["action"] == "capture"]
        self.assertEqual((capture["pre"], capture["post"], capture["replays"]), (150, 50, False))
        refused = self.run_json(TAPEBACK, "replay", "--json", self.path / "small-late-1.tape", "--target", "model:minnow",
                                expect=(2,))
        self.assertEqual(refused["error"]["code"], "not-restorable")
        self.assertIn("queues have been used since the reset", refused["error"]["message"])
        self.assertIn("queues have been used since the reset", capture["start"])

    def test_death_by_signal_writes_the_history_and_says_of_what(self):
        for signal in ("SIGSEGV", "SIGKILL", "SIGABRT"):
            with self.subTest(signal=signal):
                told = self.record(TEST_MODEL, [SCENARIOS, "crash", str(int(getattr(signals, signal))), "1000"],
                                   "--description", TEST_DESCRIPTION, "--flight", "100p", out=f"{signal}.tape")
                self.assertEqual(told["program"], {"exit": None, "signal": int(getattr(signals, signal))})
                end = told["history"]["end"]
                self.assertEqual((end["wanted"], end["packets"], end["replays"]), (True, 101, True))
                # The marker is the last call that came back: nothing in a ring was lost, and the tape is a whole one.
                last = self.packets(f"{signal}.tape")[-1]
                self.assertEqual((last["kind"], last["name"]), ("marker", "crash"))
                self.run_json(TAPEBACK, "verify", "--json", self.path / f"{signal}.tape")
                died = self.run_json(TAPEBACK, "info", "--json", self.path / f"{signal}.tape")["signature"]
                self.assertEqual((died["oracle"], died["name"], died["marker"]), ("died", signal, "crash"))

    def test_death_writes_the_history(self):
        told = self.record("model:edu?fault=factorial", EDU[:-1], "--flight", "100p", out="end.tape")
        self.assertEqual(told["outcome"], "failed")
        end = told["history"]["end"]
        self.assertTrue(end["wanted"])
        self.assertEqual(end["packets"], 101)
        self.assertTrue((self.path / "end.tape").exists())
        self.assertTrue(end["replays"], end)
        again = self.replay("end.tape", "model:edu?fault=factorial", "--expect", "signature")
        self.assertTrue(again["reproduced"])
        info = self.run_json(TAPEBACK, "info", "--json", self.path / "end.tape")
        self.assertIn("the last 101 packets", info["derivation"])

    def record_text(self, output, program, *options):
        """What a person is told of a recording on the test's device."""
        return subprocess.run([TAPEBACK, "record", "--target", TEST_MODEL, "--description", TEST_DESCRIPTION, "-o",
                               str(output), *[str(o) for o in options], "--", *program],
                              capture_output=True, text=True, timeout=60)

    def test_captures_that_a_bound_leaves_out_are_counted_and_a_loss(self):
        # 64 captures may wait for their end; these wait for the recording's.
        trig = self.trig('trigger w { when register-write { capture pre 5 packets post 100000 packets; } }')
        program = [SCENARIOS, "threads", "1", "100"]
        told = self.record(TEST_MODEL, program, "--description", TEST_DESCRIPTION, "--flight", "1000p", "--trigger", trig,
                           expect=(5,))
        captures = [e for e in told["triggers"]["events"] if e["action"] == "capture"]
        self.assertEqual([e["executed"] for e in captures], [True] * 64 + [False] * 36)
        not_done = told["triggers"]["not_done"]
        self.assertEqual((not_done["captures"], not_done["captures_reason"]),
                         (36, "64 captures wait for their end already"))
        self.assertEqual(len(list(self.path.glob("full-w-*.tape"))), 64)
        text = self.record_text(self.path / "text.tape", program, "--flight", "1000p", "--trigger", trig)
        self.assertEqual(text.returncode, 5, text.stdout + text.stderr)
        self.assertIn("LOST: 36 captures that were not taken: 64 captures wait for their end already", text.stdout)

    def test_captures_within_the_bound_are_no_loss(self):
        trig = self.trig('trigger w { when register-write { capture pre 5 packets post 100000 packets; } }')
        told = self.record(TEST_MODEL, [SCENARIOS, "threads", "1", "64"], "--description", TEST_DESCRIPTION, "--flight",
                           "1000p", "--trigger", trig)
        self.assertEqual((told["triggers"]["not_done"]["captures"], told["triggers"]["not_done"]["captures_reason"]),
                         (0, None))

    def test_an_end_that_cannot_be_written_is_not_called_nothing_recorded(self):
        folder = self.path / "gone"
        folder.mkdir()
        program = ["/bin/sh", "-c", f'rmdir "{folder}"; exec "$0" threads 1 100', SCENARIOS]
        text = self.record_text(folder / "a.tape", program, "--flight", "1000p", "--at-end", "always")
        self.assertEqual(text.returncode, 5, text.stdout + text.stderr)
        self.assertRegex(text.stdout, r"a\.tape was not written: .*No such file or directory")
        self.assertNotIn("nothing was recorded", text.stdout)
        folder.mkdir()
        told = self.record(TEST_MODEL, program, "--description", TEST_DESCRIPTION, "--flight", "1000p", "--at-end", "always",
                           out="gone/a.tape", expect=(5,))
        self.assertIn("No such file or directory", told["history"]["end"]["failure"])

    def test_a_run_that_failed_is_not_said_not_to_have(self):
        text = self.record_text(self.path / "a.tape", [SCENARIOS, "crash", "9", "100"], "--flight", "100p", "--at-end",
                                "never")
        self.assertEqual(text.returncode, 0, text.stdout + text.stderr)
        self.assertIn("the run failed", text.stdout)
        self.assertIn("no capture was taken: no trigger fired, and the end is not wanted (--at-end never)", text.stdout)
        text = self.record_text(self.path / "b.tape", [SCENARIOS, "threads", "1", "10"], "--flight", "100p")
        self.assertIn("no capture was taken: no trigger fired, and the run did not fail", text.stdout)

    def test_short_history_says_so(self):
        trig = self.trig('trigger early { when marker count 3 { fire "here"; capture pre 100000 packets post 5 packets; } }')
        told = self.record("model:edu", EDU, "--trigger", trig)
        capture = [e for e in told["triggers"]["events"] if e["action"] == "capture"][0]
        self.assertTrue(capture["pre_short"])
        self.assertEqual(capture["first"], 0)
        info = self.run_json(TAPEBACK, "info", "--json", self.path / "full-early-1.tape")
        self.assertIn("SHORT", info["derivation"])
        dump = self.run_json(TAPEBACK, "dump", "--json", self.path / "full-early-1.tape")
        said = [t["text"] for t in dump["triggers"] if "SHORT" in t["text"]]
        self.assertEqual(said, [f'early: here (SHORT: {capture["pre"]} packets before instead of 100000 packets)'])
        # What is made of it says so, too.
        source = self.path / "early.c"
        exported = self.run_json(TAPEBACK, "export", "--json", self.path / "full-early-1.tape", "--to", "c", "-o", source)
        self.assertGreaterEqual(exported["trigger_points"], 1)
        self.assertIn(said[0], source.read_text())
        for kind in ("mmiotrace", "vfio-trace"):
            capture = self.path / f"early.{kind}"
            exported = self.run_json(TAPEBACK, "export", "--json", self.path / "full-early-1.tape", "--to", kind, "-o", capture)
            lines = [line for line in capture.read_text().splitlines() if said[0] in line]
            self.assertEqual((len(lines), exported["trigger_points"]), (1, 1), capture.read_text())
            # Who reads the capture is not confused by it.
            back = self.run_json(TAPEBACK, "import", "--json", "--from", kind, capture, "-o", self.path / f"{kind}.tape")
            self.assertEqual(back["lines"]["not_understood"], 0, back)
        self.run_json(TAPEBACK, "trim", "--json", self.path / "full-early-1.tape", "--range", "start..end", "-o",
                      self.path / "trimmed.tape")
        trimmed = self.run_json(TAPEBACK, "dump", "--json", self.path / "trimmed.tape")
        self.assertIn(said[0], [t["text"] for t in trimmed["triggers"]])
        text = subprocess.run([TAPEBACK, "trigger", "run", str(trig), str(self.path / "full.tape")],
                              capture_output=True, text=True, timeout=60).stdout
        self.assertIn("(short: the tape begins)", text)

    def test_trigger_points_in_scripts(self):
        script, trig = self.path / "q.txt", self.trig('trigger t { when read { fire "seen"; capture pre 10 packets post 10 packets; } }')
        script.write_text("writel 0x1000 0x5\nOK\nreadl 0x1000\nOK 0x5\n")
        self.run_json(TAPEBACK, "import", "--json", script, "--from", "qtest", "--qemu-args", "qemu-system-i386 -M q35", "-o",
                      self.path / "q.tape")
        self.run_json(TAPEBACK, "trigger", "run", "--json", trig, self.path / "q.tape", "-o", self.path)
        out = self.path / "again.txt"
        exported = self.run_json(TAPEBACK, "export", "--json", self.path / "q-t-1.tape", "--to", "qtest", "-o", out)
        self.assertEqual(exported["trigger_points"], 1)
        lines = out.read_text().splitlines()
        self.assertTrue(lines[lines.index("readl 0x1000") - 1].startswith("# trigger point: t: seen (SHORT: "), lines)
        back = self.run_json(TAPEBACK, "import", "--json", "--from", "qtest", out, "-o", self.path / "back.tape")
        self.assertEqual((back["lines"]["not_understood"], back["ignored"].get("comment")), (0, 1))

    def test_minnow(self):
        trig = self.trig('trigger late { when submit count 120 { fire "here"; capture pre 200 packets post 50 packets; } }')
        told = self.record("model:minnow", MINNOW, "--trigger", trig)
        capture = [e for e in told["triggers"]["events"] if e["action"] == "capture"][0]
        self.assertEqual((capture["pre"], capture["post"], capture["packets"]), (200, 50, 251))
        self.assertTrue(capture["replays"], capture)
        self.check_same_grades(capture, "model:minnow")
        whole = self.packets("full.tape")
        self.assertEqual(self.shared("full-late-1.tape"), whole[capture["first"]:capture["last"] + 1])

    def test_numbers_of_devices_are_the_command_lines(self):
        # The program opens a first: on the tape it is the first, for triggers the second, live and offline.
        trig = self.trig('trigger by_number { device 1; when open { fire "b or a", thread; disarm; } }\n'
                         'trigger by_name { device "b"; when write bar0+0x18 { fire "of b", address; disarm; } }\n'
                         'trigger other { device 1; when write bar0+0x14 { fire "of a", address; disarm; } }')
        told = self.record(f"b={TEST_MODEL}", [SCENARIOS, "two-devices"], "--target", f"a={TEST_MODEL}",
                           "--description", TEST_DESCRIPTION, "--trigger", trig)
        live = [(e["trigger"], e["packet"], e["text"]) for e in told["triggers"]["events"]]
        self.assertEqual(sorted(e[0] for e in live), ["by_name", "by_number", "other"])
        run = self.run_json(TAPEBACK, "trigger", "run", "--json", trig, self.path / "full.tape")
        self.assertEqual([(f["trigger"], f["packet"], f["text"]) for f in run["tapes"][0]["fired"]], live)

    def test_mistakes_launch_nothing(self):
        witness = self.path / "witness"
        for text, options in (("trigger t { when raed ERR { fire \"x\"; } }", []),
                              ("trigger t { when marker { exec \"true\"; } }", []),
                              ("trigger t { when marker { fire \"x\"; } }", ["--flight", "12 parsecs"])):
            with self.subTest(text=text, options=options):
                done = subprocess.run([TAPEBACK, "record", "--target", "model:edu", "--trigger", str(self.trig(text)),
                                       *options, "-o", str(self.path / "no.tape"), "--", "/usr/bin/touch",
                                       str(witness)], capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertFalse(witness.exists())
                self.assertFalse((self.path / "no.tape").exists())

    def test_marker_stop_and_exec(self):
        witness = self.path / "ran"
        trig = self.trig('trigger t { when marker count 20 { fire "twenty"; marker "of-the-trigger"; '
                         f'exec "touch {witness}"; }} when marker "of-the-trigger" {{ stop; }} }}')
        told = self.record("model:edu", EDU, "--trigger", trig, "--allow-exec")
        self.assertTrue(told["stopped"])
        packets = self.run_json(TAPEBACK, "dump", "--json", "--limit", "100000", self.path / "full.tape")
        ours = [p for p in packets["packets"] if p["kind"] == "marker" and p["origin"] == "recorder"]
        self.assertEqual(len(ours), 1)
        self.assertTrue(all(e["executed"] for e in told["triggers"]["events"]))

    def ask_for_a_snapshot(self, calls, target="model:minnow", *options):
        """The program makes so many calls after the snapshot was asked for: it waits for what the trigger's command
        makes, and that comes behind the snapshot in the list of what the trigger does."""
        go = self.path / "go"
        trig = self.trig(f'trigger s {{ when marker "ask" {{ snapshot; exec "touch {go}"; }} }}')
        told = self.record(target, [SCENARIOS, "when-there", go, calls], *options, "--counters", "off",
                           "--allow-exec", "--trigger", trig)
        event, = [e for e in told["triggers"]["events"] if e["action"] == "snapshot"]
        marks = [t["text"] for t in self.run_json(TAPEBACK, "dump", "--json", self.path / "full.tape")["triggers"]]
        return event, [p["kind"] for p in self.packets("full.tape")], marks

    def test_snapshot_is_taken_at_the_next_call(self):
        event, kinds, marks = self.ask_for_a_snapshot(calls=2)
        self.assertTrue(event["executed"], event)
        self.assertIsNone(event["reason"])
        self.assertGreater(event["delay"], 0)
        # At the call that came next, not at a later one.
        behind = [k for k in kinds[kinds.index("marker"):] if k in ("register-read", "counter-snapshot")]
        self.assertEqual((behind[0], behind[1], behind[-1]), ("register-read", "counter-snapshot", "register-read"))
        self.assertEqual(behind.count("register-read"), 2)
        self.assertEqual([m for m in marks if "snapshot" in m],
                         [f's: snapshot, {event["delay"]} ns after it was asked for'])

    def test_snapshot_of_a_device_without_counters_says_that_it_has_none(self):
        event, kinds, _ = self.ask_for_a_snapshot(2, TEST_MODEL, "--description", TEST_DESCRIPTION)
        self.assertFalse(event["executed"], event)
        self.assertIn("no counters", event["reason"])
        self.assertNotIn("counter-snapshot", kinds)

    def test_snapshot_of_a_program_that_makes_no_call_is_told_as_not_executed(self):
        event, kinds, marks = self.ask_for_a_snapshot(calls=0)
        self.assertFalse(event["executed"], event)
        self.assertIn("no call", event["reason"])
        self.assertNotIn("counter-snapshot", kinds)
        self.assertEqual([m for m in marks if "snapshot" in m], [])

    def test_events_reach_another_recording(self):
        listener = self.path / "listen.trig"
        listener.write_text('trigger l { when raised trouble { fire "heard"; stop; } }')
        raiser = self.trig('trigger r { when marker count 2 { raise trouble; disarm; } }')
        # The listener's program goes on until its recording was stopped: it waits for a file that this test makes.
        go = self.path / "go"
        program = ["/bin/sh", "-c", f'{" ".join(EDU)}; while [ ! -e {go} ]; do sleep 0.05; done']
        listening = subprocess.Popen([TAPEBACK, "record", "--json", "--target", "model:edu", "-o",
                                      str(self.path / "listen.tape"), "--event-directory", str(self.events()),
                                      "--trigger", str(listener), "--", *program], stdout=subprocess.PIPE, text=True)
        try:
            while not list(self.events().glob("*.events")) if self.events().exists() else True:
                self.assertIsNone(listening.poll())
            self.record("model:edu", EDU, "--trigger", raiser, out="raise.tape")
        finally:
            go.touch()
            out, _ = listening.communicate(timeout=60)
        told = json.loads(out)
        heard = [e for e in told["triggers"]["events"] if e["action"] == "raise"]
        self.assertEqual(len(heard), 1, told["triggers"])
        self.assertIn("raised by process", heard[0]["text"])
        # The measured skew is on the tape.
        self.assertGreater(heard[0]["delay"], 0)
        marks = [t["text"] for t in self.run_json(TAPEBACK, "dump", "--json", self.path / "listen.tape")["triggers"]]
        self.assertTrue(any(f'{heard[0]["delay"]} ns before it was seen here' in mark for mark in marks), marks)


if __name__ == "__main__":
    ScriptTest.main()
