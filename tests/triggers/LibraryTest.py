#!/usr/bin/env python3
"""The trigger library against recordings: each planted fault is caught by the triggers that say so, and all of them
are silent on clean runs.

    LibraryTest.py             the test (TAPEBACK_BINARY_DIR names the build tree)
    LibraryTest.py --table     writes the tables of triggers/library/README.md to standard output
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import ScriptTest  # noqa: E402

BIN = ScriptTest.BUILD / "bin"
LIBRARY = ScriptTest.ROOT / "triggers" / "library"
HAS_RTL = (ScriptTest.BUILD / "lib" / "tapeback" / "tapeback-rtl-minnow.so").exists()


class Case:
    """A recording and the triggers that must fire on it; no other may, unless it is in `may`."""

    def __init__(self, name, target, program, must=(), may=()):
        self.name, self.target, self.program = name, target, program
        self.must, self.may = set(must), set(may)

    @property
    def device(self):
        return "edu" if ":edu" in self.target else "minnow"


EDU = ["edu-exercise", "--seed", "1", "--ops", "100", "--keep-going"]
AD = ["minnow-run", "--net", "ad"]
CASES = [
    Case("edu, clean", "model:edu", EDU),
    Case("edu, factorial", "model:edu?fault=factorial", EDU, ["factorial", "check_failed"]),
    Case("edu, irq-sticky", "model:edu?fault=irq-sticky", EDU, ["acknowledged_cause_stays", "check_failed"]),
    Case("edu, liveness", "model:edu?fault=liveness&after=3", EDU, ["liveness", "check_failed"]),
    Case("minnow, clean: kws on the model", "model:minnow", ["minnow-run", "--net", "kws"]),
    Case("minnow, clean: stress on the model", "model:minnow",
         ["minnow-stress", "--seed", "1", "--commands", "200", "--no-errors", "--no-resets"]),
]
RTL_CASES = [
    Case("minnow, clean: ad on the RTL", "rtl:minnow", AD),
    Case("dma-4k-last-beat", "rtl:minnow?errata=dma-4k-last-beat", AD, ["check_failed"]),
    Case("requant-wrap", "rtl:minnow?errata=requant-wrap", ["minnow-run", "--net", "kws", "--layers", "3"],
         ["check_failed"]),
    Case("stale-scratchpad", "rtl:minnow?errata=stale-scratchpad", AD, ["check_failed"]),
    Case("counter-stall", "rtl:minnow?errata=counter-stall", AD, ["counter_stall", "check_failed"]),
    Case("wrap-full-hang", "rtl:minnow?errata=wrap-full-hang", AD + ["--ring", "8"],
         ["completion_timeout", "check_failed"]),
    Case("chain-prefetch", "rtl:minnow?errata=chain-prefetch", AD,
         ["error_register", "completion_timeout", "check_failed"]),
    Case("reset-head", "rtl:minnow?errata=reset-head", AD, ["busy_behind_reset", "check_failed"]),
    Case("fence-overtake", "rtl:minnow?errata=fence-overtake&jitter=256",
         AD + ["--inferences", "4", "--keep-going"], ["fence_before_data", "check_failed"]),
]


def run(*command, check=True):
    environment = dict(os.environ, PATH=f"{BIN}:{os.environ['PATH']}")
    environment.pop("TAPEBACK_TARGET", None)
    done = subprocess.run([str(part) for part in command], env=environment, capture_output=True, text=True, timeout=120)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} exited {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def record(case, folder):
    tape = pathlib.Path(folder) / (case.name.replace(" ", "-").replace(",", "").replace(":", "") + ".tape")
    run(BIN / "tapeback", "record", "--target", case.target, "-o", tape, "--", BIN / case.program[0], *case.program[1:])
    return tape


def library(device):
    """One file of all triggers for a device: a tape is read once."""
    files = [f for f in sorted(LIBRARY.glob("*.trig")) if f.name.startswith("edu-") == (device == "edu")]
    return files + [LIBRARY / "check-failed.trig"] if device == "edu" else files


def fire(tape, device, folder):
    """The first firing of each trigger that fires: name -> packet."""
    together = pathlib.Path(folder) / f"{device}.trig"
    together.write_text("".join(f.read_text() for f in library(device)))
    report = json.loads(run(BIN / "tapeback", "trigger", "run", together, tape, "--json").stdout)
    first = {}
    for fired in report["tapes"][0]["fired"]:
        if fired["action"] == "fire":
            first.setdefault(fired["trigger"], fired["packet"])
    return first


class LibraryTest(unittest.TestCase):
    maxDiff = None

    def check(self, cases):
        with tempfile.TemporaryDirectory() as folder:
            for case in cases:
                with self.subTest(case.name):
                    fired = set(fire(record(case, folder), case.device, folder))
                    self.assertEqual(sorted(case.must - fired), [], "not caught")
                    self.assertEqual(sorted(fired - case.must - case.may), [], "fired on what it is not about")
                    self.assertEqual(sorted(documented()[case.name]), sorted(fired), "the library's README")

    def test_the_readme_has_every_trigger_and_recording(self):
        self.assertEqual(set(documented()), {case.name for case in CASES + RTL_CASES})
        rows = re.findall(r"^\| `(\w+)` \|", (LIBRARY / "README.md").read_text(), re.M)
        self.assertEqual([row for row in rows if row in names("edu") + names("minnow")], names("edu") + names("minnow"))

    def test_faults_of_models_are_caught_and_clean_runs_stay_silent(self):
        self.check(CASES)

    @unittest.skipUnless(HAS_RTL, "built without Minnow's RTL")
    def test_errata_are_caught(self):
        self.check(RTL_CASES)


class VerbTest(unittest.TestCase):
    """`tapeback trigger` over one recording."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.tape = record(CASES[0], cls.folder.name)

    def file(self, text):
        path = pathlib.Path(self.folder.name) / "test.trig"
        path.write_text(text)
        return path

    def trigger(self, *arguments, code=0):
        done = run(BIN / "tapeback", "trigger", *arguments, "--json", check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual(result["schema"], "tapeback.trigger/1")
        return result

    def packets(self, tape, *options):
        return json.loads(run(BIN / "tapeback", "dump", tape, "--json", *options).stdout)["packets"]

    def test_a_wrong_file_is_refused_before_anything_is_read(self):
        wrong = self.file("trigger t { when read STATSU { fire \"x\"; } }")
        checked = self.trigger("check", wrong, "--description", "edu", code=2)
        self.assertEqual(checked["error"]["code"], "bad-trigger")
        self.assertEqual((checked["diagnostics"][0]["line"], checked["diagnostics"][0]["column"]), (1, 23))
        self.assertIn("STATUS", checked["diagnostics"][0]["hint"])
        for verb in ("run", "explain", "coverage"):
            result = self.trigger(verb, wrong, self.tape, code=2)
            self.assertIn(":1:23", result["error"]["where"])
        self.trigger("check", self.file("trigger t { when read STATUS { exec \"x\"; } }"), "--description", "edu", code=2)
        self.trigger("check", self.file("trigger t { when read STATUS { exec \"x\"; } }"), "--description", "edu",
                     "--allow-exec")
        self.trigger("run", wrong, code=2)
        self.trigger("fly", wrong, code=2)

    def test_captures_are_exact_and_say_when_they_are_short(self):
        file = self.file("""trigger t { when write DMA_CMD { fire "dma", value; capture pre 7 packets post 5 packets; } }
                            trigger early { when open { capture pre 9 packets post 1 packets; } }""")
        out = pathlib.Path(self.folder.name) / "captures"
        out.mkdir()
        result = self.trigger("run", file, self.tape, "-o", out)
        fired = result["tapes"][0]["fired"]
        writes = [p["packet"] for p in self.packets(self.tape, "--kind", "register-write", "--register", "DMA_CMD")
                  if p["origin"] == "program"]
        self.assertEqual([f["packet"] for f in fired if f["action"] == "fire"], writes)
        self.assertGreater(len(writes), 20)
        whole = self.packets(self.tape)
        captures = [f for f in fired if f["action"] == "capture"]
        for capture in captures:
            early = capture["trigger"] == "early"
            self.assertEqual((capture["pre"], capture["post"]), (0, 1) if early else (7, 5))
            self.assertEqual((capture["pre_short"], capture["post_short"]), (early, False))
            inside = self.packets(capture["tape"])
            if not early:
                head = inside.pop(0)
                self.assertEqual((head["kind"], int(str(head["lost"]), 0)), ("loss", capture["first"]))
            wanted = whole[capture["first"]:capture["last"] + 1]
            same = ("kind", "issue", "address", "value", "payload")
            self.assertEqual([[p.get(k) for k in same] for p in inside], [[p.get(k) for k in same] for p in wanted])
        for capture in captures[:3]:
            run(BIN / "tapeback", "verify", capture["tape"])
        # The trigger point is marked.
        marked = run(BIN / "tapeback", "dump", captures[-1]["tape"]).stdout.splitlines()
        at = [i for i, line in enumerate(marked) if "^ trigger " in line and "t: dma (value" in line]
        self.assertEqual(len(at), 1)
        self.assertIn("DMA_CMD", marked[at[0] - 1])
        # Never over something that is there.
        refused = self.trigger("run", file, self.tape, "-o", out, code=2)
        self.assertIn("--force", refused["error"]["hint"])
        self.trigger("run", file, self.tape, "-o", out, "--force")
        self.trigger("run", file, self.tape, "--force", code=2)

    def test_kept_packets_only(self):
        file = self.file("""trigger t { keep access DMA_CMD; when marker rate 2 in 1 s {
                              fire "x"; capture pre 3 packets post 3 packets; disarm; } }""")
        out = pathlib.Path(self.folder.name) / "kept"
        out.mkdir()
        capture = self.trigger("run", file, self.tape, "-o", out)["tapes"][0]["fired"][1]
        inside = [p for p in self.packets(capture["tape"]) if p["kind"] != "loss"]
        self.assertEqual(len(inside), capture["pre"] + capture["post"] + 1)
        self.assertEqual(capture["post"], 3)
        self.assertEqual({p.get("register") for p in inside if p["packet"] and p["kind"] != "marker"}, {"DMA_CMD"})
        run(BIN / "tapeback", "verify", capture["tape"])

    def test_expectations_explanations_coverage(self):
        file = self.file("""trigger t {
            state a { when read IDENT && value == 0x10000ed -> b; }
            state b { when write LIVENESS && value > 5 { fire "x"; } -> c; }
            state c { when reset && completion == pending { fire "never"; } } }""")
        self.trigger("run", file, self.tape, "--expect", "fired")
        self.trigger("run", file, self.tape, "--expect", "silent", code=1)
        explained = self.trigger("explain", file, self.tape, "--range", "p0..p40")["packets"]
        entered = [e["state"] for p in explained for e in p["entered"]]
        self.assertEqual(entered[:2], ["a", "b"])
        whys = [r["why"] for p in explained for r in p["rules"] if not r["held"]]
        self.assertTrue(all(why.startswith(("read IDENT", "write LIVENESS", "value")) for why in whys), whys)
        covered = self.trigger("coverage", file, self.tape)["covered"]
        self.assertEqual((covered["states"], covered["states_all"]), (3, 3))
        self.assertEqual((covered["rules"], covered["rules_all"]), (2, 3))
        self.assertEqual(covered["predicates_all"], 6)
        self.assertLess(covered["predicates"], 6)
        text = run(BIN / "tapeback", "trigger", "coverage", file, self.tape).stdout
        self.assertIn("2 of 3 rules fired", text)
        self.assertIn("  ! t", text)


NOT_CAUGHT = "–"


def documented():
    """What the tables of triggers/library/README.md say is caught: recording -> triggers."""
    caught = {}
    columns = []
    for line in (LIBRARY / "README.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| Trigger |"):
            columns = cells[1:]
            for column in columns:
                caught[column] = set()
        elif columns and line.startswith("| `"):
            for column, cell in zip(columns, cells[1:]):
                if cell != NOT_CAUGHT:
                    caught[column].add(cells[0].strip("`"))
        elif not line.startswith("|-"):
            columns = []
    return caught


def names(device):
    """Of the triggers for a device, in the order of the library's files."""
    return [name for f in library(device) for name in re.findall(r"^trigger (\w+)", f.read_text(), re.M)]


def latency(tape, device, packet):
    """From the first packet in which a replay on the clean model differs; without one, the packet alone."""
    replay = run(BIN / "tapeback", "replay", tape, "--target", f"model:{device}", "--json", check=False)
    seen = (json.loads(replay.stdout).get("first_divergence") or {}).get("packet")
    return f"p{packet}" if seen is None else f"{packet - seen:+d}" if packet != seen else "0"


def table():
    with tempfile.TemporaryDirectory() as folder:
        for device in ("edu", "minnow"):
            cases = [case for case in CASES + (RTL_CASES if HAS_RTL else []) if case.device == device]
            cells = {}
            for case in cases:
                tape = record(case, folder)
                for trigger, packet in fire(tape, device, folder).items():
                    cells[trigger, case.name] = latency(tape, device, packet)
            print("| Trigger | " + " | ".join(case.name for case in cases) + " |")
            print("|---" * (len(cases) + 1) + "|")
            for name in names(device):
                row = [cells.get((name, case.name), NOT_CAUGHT) for case in cases]
                print(f"| `{name}` | " + " | ".join(row) + " |")
            print()


if __name__ == "__main__":
    if sys.argv[1:] == ["--table"]:
        table()
    else:
        ScriptTest.main()
