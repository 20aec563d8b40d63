#!/usr/bin/env python3
"""Flight mode and live triggers as a user runs them: captures replay with the grades of the whole tape, or refuse with
the reason; mistakes are found before anything is launched; events reach other recordings."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import ScriptTest  # noqa: E402

BIN = ScriptTest.BUILD / "bin"
TAPEBACK = str(BIN / "tapeback")
EDU = [str(BIN / "edu-exercise"), "--seed", "5", "--ops", "150", "--keep-going"]
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

    def test_edu_flight_evicts_and_still_replays(self):
        # The history is less than a tenth of the run.
        full = self.record("model:edu", EDU)
        trig = self.trig('trigger late { when marker count 140 { fire "here"; capture pre 60 packets post 10 packets; } }')
        told = self.record("model:edu", EDU, "--flight", "80p", "--trigger", trig, out="flight.tape")
        self.assertFalse((self.path / "flight.tape").exists())
        capture = [e for e in told["triggers"]["events"] if e["action"] == "capture"][0]
        self.assertEqual((capture["pre"], capture["post"], capture["pre_short"]), (60, 10, False))
        self.assertGreater(full["packets"], 800)
        self.replay("flight-late-1.tape", "model:edu", expect=(0,) if capture["replays"] else (2,))

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

    def test_short_history_says_so(self):
        trig = self.trig('trigger early { when marker count 3 { fire "here"; capture pre 100000 packets post 5 packets; } }')
        told = self.record("model:edu", EDU, "--trigger", trig)
        capture = [e for e in told["triggers"]["events"] if e["action"] == "capture"][0]
        self.assertTrue(capture["pre_short"])
        self.assertEqual(capture["first"], 0)
        info = self.run_json(TAPEBACK, "info", "--json", self.path / "full-early-1.tape")
        self.assertIn("SHORT", info["derivation"])
        dump = self.run_json(TAPEBACK, "dump", "--json", self.path / "full-early-1.tape")
        self.assertTrue(any("here" in t["text"] for t in dump["triggers"]))

    def test_minnow(self):
        trig = self.trig('trigger late { when submit count 120 { fire "here"; capture pre 200 packets post 50 packets; } }')
        told = self.record("model:minnow", MINNOW, "--trigger", trig)
        capture = [e for e in told["triggers"]["events"] if e["action"] == "capture"][0]
        self.assertEqual((capture["pre"], capture["post"], capture["packets"]), (200, 50, 251))
        self.assertTrue(capture["replays"], capture)
        self.check_same_grades(capture, "model:minnow")
        whole = self.packets("full.tape")
        self.assertEqual(self.shared("full-late-1.tape"), whole[capture["first"]:capture["last"] + 1])

    def test_minnow_without_the_prefix_refuses_with_the_reason(self):
        # A megabyte is less than the run's contents: the prefix is dropped, and the capture says what is missing.
        trig = self.trig('trigger late { when submit count 140 { fire "here"; capture pre 20 packets post 5 packets; } }')
        told = self.record("model:minnow", MINNOW, "--flight", "30p", "--flight-memory", "1MiB", "--trigger", trig)
        capture = [e for e in told["triggers"]["events"] if e["action"] == "capture"][0]
        done = subprocess.run([TAPEBACK, "replay", "--json", str(self.path / "full-late-1.tape"), "--target",
                               "model:minnow"], capture_output=True, text=True, timeout=60)
        if capture["replays"]:
            self.assertEqual(done.returncode, 0, done.stdout)
        else:
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn("not-restorable", done.stdout)
            self.assertTrue(capture["start"])

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

    def test_snapshot_is_taken_at_the_next_call(self):
        trig = self.trig('trigger s { when submit count 20 { snapshot; disarm; } }')
        told = self.record("model:minnow", MINNOW, "--counters", "off", "--trigger", trig)
        event = [e for e in told["triggers"]["events"] if e["action"] == "snapshot"]
        self.assertEqual(len(event), 1)
        snapshots = [p for p in self.packets("full.tape") if p["kind"] == "counter-snapshot"]
        # Either the program made a call after it was asked, or the report says that it did not.
        self.assertEqual(event[0]["executed"], bool(snapshots), event[0])
        self.assertEqual(event[0]["reason"] is None, event[0]["executed"])

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


if __name__ == "__main__":
    ScriptTest.main()
