// info, dump, verify and recover on tapes that are what they should be.
#include "format/Failure.h"
#include "format/TapeReader.h"
#include "tests/tools/RunJson.h"
#include "tests/tools/SampleTape.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

using namespace llvm;
using namespace tapeback;
using namespace tapeback::test;

namespace {

/// A directory with "a.tape" in it.
struct Sample {
  ScratchDirectory scratch;
  TapeSummary summary;
  explicit Sample(const SampleOptions &options = {}) : summary(writeSampleTape(path(), options)) {}
  std::string path() const { return scratch.file("a.tape"); }
};

std::vector<std::string> lines(StringRef text) {
  SmallVector<StringRef> pieces;
  text.split(pieces, '\n', -1, /*KeepEmpty=*/false);
  return {pieces.begin(), pieces.end()};
}

/// The packets that `dump` with these arguments lists, by ordinal.
std::vector<int64_t> dumped(const std::string &path, std::vector<std::string> args) {
  args.insert(args.begin(), {"dump", path});
  JsonResult result = runJson(args);
  CHECK_MESSAGE(result.run.exited(0), result.run);
  std::vector<int64_t> ordinals;
  if (const json::Array *packets = result.object.getArray("packets"))
    for (const json::Value &packet : *packets)
      ordinals.push_back(packet.getAsObject()->getInteger("packet").value_or(-1));
  // The same through the other machine form.
  args.insert(args.end(), {"--format", "jsonl"});
  RunResult stream = runTapeback(args);
  CHECK_MESSAGE(stream.exited(0), stream);
  std::vector<int64_t> streamed;
  for (const std::string &line : lines(stream.out)) {
    Expected<json::Value> value = json::parse(line);
    REQUIRE_MESSAGE(bool(value), line);
    if (streamed.empty() && value->getAsObject()->get("schema"))
      continue;
    streamed.push_back(value->getAsObject()->getInteger("packet").value_or(-1));
  }
  CHECK(streamed == ordinals);
  return ordinals;
}

/// The first of the packets that a `dump --json` listed.
json::Object firstPacket(const JsonResult &result) {
  const json::Array *packets = result.object.getArray("packets");
  REQUIRE_MESSAGE((packets && !packets->empty()), result.run);
  return *packets->front().getAsObject();
}

using Ordinals = std::vector<int64_t>;

Ordinals steps(std::initializer_list<uint64_t> wanted, unsigned operations = 3) {
  Ordinals result;
  for (unsigned i = 0; i < operations; ++i)
    for (uint64_t step : wanted)
      result.push_back(int64_t(samplePacket(i, step)));
  return result;
}

} // namespace

TEST_CASE("info says what is on the tape") {
  Sample sample;
  JsonResult info = runJson({"info", sample.path(), "--keyframes"});
  CHECK_MESSAGE(info.run.exited(0), info.run);
  CHECK(info.run.err.empty());
  CHECK(info.text("root") == toHex(sample.summary.root));
  CHECK(info.number("packets") == int64_t(sample.summary.packets));
  CHECK(info.number("windows") == int64_t(sample.summary.windows));
  CHECK(info.number("format_version") == 2);
  CHECK(info.number("file_bytes") == int64_t(readWholeFile(sample.path()).size()));
  CHECK(info.number("failed_checks") == 1);
  CHECK(info.number("pending") == 1);
  REQUIRE(info.at("manifest"));
  CHECK(info.at("manifest")->getString("workload") == "sample");
  REQUIRE(info.at("packets_by_kind"));
  CHECK(info.at("packets_by_kind")->getInteger("marker") == 3);
  CHECK(info.at("packets_by_kind")->getInteger("register-read") == 4);
  CHECK(info.at("packets_by_kind")->get("submit") == nullptr);
  REQUIRE(info.object.getArray("devices"));
  const json::Object *device = (*info.object.getArray("devices"))[0].getAsObject();
  CHECK(device->getString("alias") == "edu");
  CHECK(device->getString("target") == "model:edu");
  REQUIRE(info.at("outcome"));
  CHECK(info.at("outcome")->getString("kind") == "failed");
  REQUIRE(info.at("program"));
  CHECK(info.at("program")->getInteger("exit") == 1);
  REQUIRE(info.at("signature"));
  CHECK(info.at("signature")->getString("name") == "liveness");
  CHECK(info.at("signature")->getInteger("occurrence") == 3);

  JsonResult quick = runJson({"info", sample.path(), "--quick"});
  CHECK(quick.run.exited(0));
  CHECK(quick.text("root") == toHex(sample.summary.root));
  CHECK(quick.at("packets_by_kind") == nullptr);

  RunResult text = runTapeback({"info", sample.path()});
  CHECK(text.exited(0));
  CHECK(StringRef(text.out).contains(toHex(sample.summary.root)));
  CHECK(StringRef(text.out).contains("register-read     4"));
  // What comes from a tape cannot command the terminal.
  CHECK_FALSE(StringRef(text.out).contains("\x1b"));
  CHECK(StringRef(text.out).contains("\\x1b[31m"));
}

TEST_CASE("info counts losses and unknown kinds") {
  SampleOptions options;
  options.loss = options.unknownKind = true;
  options.failing = false;
  Sample sample(options);
  JsonResult info = runJson({"info", sample.path()});
  CHECK_MESSAGE(info.run.exited(0), info.run);
  REQUIRE(info.at("losses"));
  CHECK(info.at("losses")->getInteger("ring-full") == 12);
  CHECK(info.at("packets_by_kind")->getInteger("unknown-200") == 1);
  CHECK(info.object.get("signature")->kind() == json::Value::Null);
  CHECK(info.at("outcome")->getString("kind") == "passed");
}

TEST_CASE("dump shows every packet, in order, however it is asked") {
  SampleOptions options;
  options.loss = options.unknownKind = true;
  Sample sample(options);
  Ordinals all;
  for (uint64_t i = 0; i < sample.summary.packets; ++i)
    all.push_back(int64_t(i));
  CHECK(dumped(sample.path(), {}) == all);
  RunResult text = runTapeback({"dump", sample.path()});
  CHECK(text.exited(0));
  CHECK(text.err.empty());
  REQUIRE(lines(text.out).size() == all.size());
  for (size_t i = 0; i < all.size(); ++i)
    CHECK(StringRef(lines(text.out)[i]).starts_with("p" + std::to_string(i) + " "));
}

TEST_CASE("dump names registers, fields, activities and interrupts from the tape's own description") {
  Sample sample;
  std::string text = runTapeback({"dump", sample.path(), "--range", "@op#1"}).out;
  for (const char *part :
       {"marker         \"op\"", "LIVENESS (bar0+0x4) <- 0x1234",
        "STATUS (bar0+0x20) -> 0x81 COMPUTING=0x1 IRQ_ON_FACTORIAL=0x1",
        "DMA_CMD (bar0+0x98) until & 0x1 == 0x0 within 1 s: 0x0 RUN=0x0", "after 3 reads",
        "to device 0x40000 from 0x1000, 40 bytes (dma)", "vector 0 (msi) within 5 ms: came, 1 pending",
        "oracle         \"liveness\" holds: 0x81, expected 0x81", "|a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0..."})
    CHECK_MESSAGE(StringRef(text).contains(part), part << "\n" << text);
  CHECK(StringRef(runTapeback({"dump", sample.path(), "--kind", "oracle"}).out)
            .contains("FAILED: 0x80, expected 0x81"));
  JsonResult one = runJson({"dump", sample.path(), "--range", "p4"});
  const json::Object shown = firstPacket(one), *packet = &shown;
  CHECK(packet->getString("kind") == "register-read");
  CHECK(packet->getString("register") == "STATUS");
  CHECK(packet->getString("space") == "bar0");
  CHECK(packet->getString("address") == "0x20");
  CHECK(packet->getString("value") == "0x81");
  CHECK(packet->getInteger("width") == 4);
  CHECK(packet->getObject("fields")->getString("IRQ_ON_FACTORIAL") == "0x1");

  SampleOptions options;
  options.description = false;
  Sample plain(options);
  std::string numbers = runTapeback({"dump", plain.path(), "--range", "@op#1"}).out;
  CHECK(StringRef(numbers).contains("register-read  bar0+0x20 -> 0x81"));
  CHECK_FALSE(StringRef(numbers).contains("STATUS"));
}

TEST_CASE("dump filters by kind") {
  Sample sample;
  CHECK(dumped(sample.path(), {"--kind", "register-write"}) == steps({1}));
  CHECK(dumped(sample.path(), {"--kind", "poll,oracle"}) == steps({3, 8}));
  CHECK(dumped(sample.path(), {"--kind", "poll", "--kind", "oracle"}) == steps({3, 8}));
  CHECK(dumped(sample.path(), {"--kind", "submit"}).empty());
  CHECK(dumped(sample.path(), {"--kind", "unknown"}).empty());
  SampleOptions options;
  options.unknownKind = true;
  Sample odd(options);
  CHECK(dumped(odd.path(), {"--kind", "unknown"}) == Ordinals{int64_t(samplePacket(3, 0))});
  CHECK(StringRef(runTapeback({"dump", odd.path(), "--kind", "unknown"}).out).contains("unknown-200"));
  RunResult bad = runTapeback({"dump", sample.path(), "--kind", "register-raed"});
  CHECK_MESSAGE(bad.exited(2), bad);
  CHECK(StringRef(bad.err).contains("did you mean 'register-read'?"));
  RunResult none = runTapeback({"dump", sample.path(), "--kind", "submit"});
  CHECK(none.exited(0));
  CHECK(none.out.empty());
  CHECK(StringRef(none.err).contains("no packet passes"));
}

TEST_CASE("dump filters by range") {
  Sample sample;
  CHECK(dumped(sample.path(), {"--range", "p3..p5"}) == Ordinals{3, 4, 5});
  CHECK(dumped(sample.path(), {"--range", "@op#2"}) == [&] {
    Ordinals all;
    for (uint64_t step = 0; step < samplePerOperation; ++step)
      all.push_back(int64_t(samplePacket(1, step)));
    return all;
  }());
  CHECK(dumped(sample.path(), {"--range", "@op#2", "--kind", "marker"}) ==
        Ordinals{int64_t(samplePacket(1, 0))});
  CHECK(dumped(sample.path(), {"--range", "end"}) == Ordinals{int64_t(sample.summary.packets - 1)});
  for (const char *bad : {"w99", "p99..end", "@op#4", "@none", "w1..w0", "", "x"}) {
    JsonResult result = runJson({"dump", sample.path(), "--range", bad});
    CHECK_MESSAGE(result.run.exited(2), result.run);
  }
}

TEST_CASE("dump filters by register, name or place, and only register accesses pass") {
  Sample sample;
  CHECK(dumped(sample.path(), {"--register", "STATUS"}) == steps({2}));
  CHECK(dumped(sample.path(), {"--register", "STATUS,LIVENESS"}) == steps({1, 2}));
  CHECK(dumped(sample.path(), {"--register", "bar0+0x20"}) == steps({2}));
  CHECK(dumped(sample.path(), {"--register", "bar0+0x23"}) == steps({2})); // Its last byte.
  CHECK(dumped(sample.path(), {"--register", "bar0+0x24"}).empty());
  CHECK(dumped(sample.path(), {"--register", "FACTORIAL"}) == Ordinals{int64_t(samplePacket(3, 0))});
  CHECK(dumped(sample.path(), {"--register", "DMA_CMD", "--kind", "poll", "--range", "@op#3"}) ==
        Ordinals{int64_t(samplePacket(2, 3))});
  for (auto [name, hint] : {std::pair("STATSU", "did you mean 'STATUS'?"),
                            std::pair("bar9+0", "did you mean 'bar0'?"), std::pair("bar0+x", "bar0+0x20")}) {
    RunResult bad = runTapeback({"dump", sample.path(), "--register", name});
    CHECK_MESSAGE(bad.exited(2), bad);
    CHECK_MESSAGE(StringRef(bad.err).contains(hint), bad);
  }
  SampleOptions options;
  options.description = false;
  Sample plain(options);
  RunResult bad = runTapeback({"dump", plain.path(), "--register", "STATUS"});
  CHECK(bad.exited(2));
  CHECK(StringRef(bad.err).contains("no description"));
  CHECK(dumped(plain.path(), {"--register", "bar0+0x20"}) == steps({2}));
}

TEST_CASE("dump filters by device and thread") {
  Sample sample;
  const int64_t last = int64_t(sample.summary.packets) - 1;
  CHECK(dumped(sample.path(), {"--thread", "1"}) == Ordinals{last - 1});
  CHECK(dumped(sample.path(), {"--device", "edu", "--thread", "1"}) == Ordinals{last - 1});
  CHECK(dumped(sample.path(), {"--device", "0"}).size() == sample.summary.packets);
  CHECK(dumped(sample.path(), {"--thread", "7"}).empty());
  for (std::vector<std::string> bad : {std::vector<std::string>{"--device", "edv"},
                                       {"--device", "1"},
                                       {"--device", ""},
                                       {"--thread", "x"},
                                       {"--thread", "-1"},
                                       {"--thread", "65536"}}) {
    bad.insert(bad.begin(), {"dump", sample.path()});
    RunResult result = runTapeback(bad);
    CHECK_MESSAGE(result.exited(2), result);
  }
}

TEST_CASE("dump --json is bounded and says where to go on") {
  Sample sample;
  JsonResult first = runJson({"dump", sample.path(), "--limit", "5"});
  CHECK(first.number("count") == 5);
  CHECK(first.object.getBoolean("truncated") == true);
  CHECK(first.text("next") == "p5");
  JsonResult rest = runJson({"dump", sample.path(), "--range", "p5..end"});
  CHECK(rest.number("count") == int64_t(sample.summary.packets) - 5);
  CHECK(rest.object.getBoolean("truncated") == false);
  CHECK(rest.object.get("next")->kind() == json::Value::Null);
  CHECK(lines(runTapeback({"dump", sample.path(), "--limit", "4"}).out).size() == 4);
  CHECK(runJson({"dump", sample.path(), "--limit", "0"}).number("count") == 0);
}

TEST_CASE("dump shows payloads as much as asked") {
  Sample sample;
  auto memoryWrite = [&](const char *how) {
    JsonResult result = runJson({"dump", sample.path(), "--range", "p6", "--payload", how});
    CHECK_MESSAGE(result.run.exited(0), result.run);
    return firstPacket(result);
  };
  CHECK(memoryWrite("none").get("payload") == nullptr);
  CHECK(memoryWrite("none").getInteger("length") == 40);
  CHECK(memoryWrite("preview").getString("payload")->size() == 32);
  CHECK(memoryWrite("preview").getBoolean("payload_truncated") == true);
  CHECK(memoryWrite("hex").getString("payload") == std::string(80, 'a').replace(0, 80, [] {
    std::string all;
    for (int i = 0; i < 40; ++i)
      all += "a0";
    return all;
  }()));
  CHECK(memoryWrite("hex").getBoolean("payload_truncated") == false);
  RunResult text = runTapeback({"dump", sample.path(), "--range", "p6", "--payload", "hex"});
  CHECK(lines(text.out).size() == 4); // 40 bytes in lines of 16.
  CHECK(StringRef(text.out).contains("000000001020  a0 a0 a0 a0 a0 a0 a0 a0 "));
  CHECK(runTapeback({"dump", sample.path(), "--payload", "all"}).exited(2));
  CHECK(runTapeback({"dump", sample.path(), "--format", "xml"}).exited(2));
  CHECK(runTapeback({"dump", sample.path(), "--format", "jsonl", "--json"}).exited(2));
}

TEST_CASE("a listing whose reader went away stops without complaint, one that cannot be written does not") {
  SampleOptions options;
  options.operations = 3000;
  Sample sample(options);
  for (std::vector<std::string> args : {std::vector<std::string>{}, {"--format", "jsonl"}, {"--json"}}) {
    args.insert(args.begin(), {"dump", sample.path()});
    RunOptions gone;
    gone.outputTo = "broken-pipe";
    RunResult result = runTapeback(args, gone);
    CHECK_MESSAGE(result.exited(0), result);
    CHECK_MESSAGE(result.err.empty(), result);
    RunOptions full;
    full.outputTo = "/dev/full";
    RunResult failed = runTapeback(args, full);
    CHECK_MESSAGE(failed.exited(5), failed);
    CHECK_MESSAGE(StringRef(failed.err).contains("could not be written"), failed);
    RunOptions closed;
    closed.outputTo = "closed";
    CHECK(runTapeback(args, closed).exited(5));
  }
}

TEST_CASE("an empty tape is a tape") {
  // Not even a device: a program that never opened one.
  ScratchDirectory scratch;
  SampleOptions options;
  options.operations = 0;
  options.failing = false;
  writeSampleTape(scratch.file("a.tape"), options);
  for (const char *verb : {"info", "dump", "verify"})
    CHECK(runTapeback({verb, scratch.file("a.tape")}).exited(0));
}

TEST_CASE("a recording of a program that opened nothing replays, on whatever target is named") {
  ScratchDirectory scratch;
  std::string tape = scratch.file("a.tape");
  REQUIRE(runTapeback({"record", "--target", "null:", "-o", tape, "--", "true"}).exited(0));
  CHECK(runTapeback({"verify", tape}).exited(0));
  for (std::vector<std::string> args : {std::vector<std::string>{"replay", tape, "--target", "null:"},
                                        {"replay", tape},
                                        {"bisect", tape, "--good", "null:", "--bad", "null:"}}) {
    RunResult result = runTapeback(args);
    CHECK_MESSAGE(result.exited(0), result);
    if (args[0] == "replay")
      CHECK_MESSAGE(StringRef(result.err).contains("nothing is on the tape"), result);
  }
  RunResult other = runTapeback({"replay", tape, "--target", "edu=null:"});
  CHECK_MESSAGE(other.exited(2), other); // That device it does not have.
}

TEST_CASE("replay with the description of another device, or of too many, says so") {
  Sample sample;
  const std::string own = TAPEBACK_SOURCE_DIR "/hal/edu/edu.yaml";
  struct Row {
    std::vector<std::string> descriptions;
    const char *said; ///< Null: nothing.
  };
  for (const Row &row : {Row{{}, nullptr}, Row{{own}, nullptr},
                         Row{{"minnow"}, "recorded as \"edu\", but --description is of \"minnow\""},
                         Row{{own, own}, "--description is given 2 times"}}) {
    std::vector<std::string> args{"replay", sample.path(), "--target", "model:edu"};
    for (const std::string &description : row.descriptions) {
      args.push_back("--description");
      args.push_back(description);
    }
    RunResult result = runTapeback(args);
    CHECK_MESSAGE(StringRef(result.err).contains("warning") == (row.said != nullptr), result);
    if (row.said)
      CHECK_MESSAGE(StringRef(result.err).contains(row.said), result);
  }
}

TEST_CASE("what could only be a mistake in replay's options is bad usage") {
  Sample sample;
  for (std::vector<std::string> args :
       {std::vector<std::string>{"--until", ""}, {"--max-wait", "0"}, {"--allow-register", "NO_SUCH"}}) {
    args.insert(args.begin(), {"replay", sample.path(), "--target", "null:"});
    RunResult result = runTapeback(args);
    CHECK_MESSAGE(result.exited(2), result);
    CHECK_MESSAGE(StringRef(result.err).contains(args[4] == "--until" ? "range" : args[4]), result);
  }
}

TEST_CASE("a dry run lists what would be written, and refuses what the description forbids") {
  Sample sample;
  JsonResult allowed = runJson({"replay", sample.path(), "--dry-run"});
  CHECK_MESSAGE(allowed.run.exited(0), allowed.run);
  CHECK(allowed.number("count") > 0);
  CHECK(allowed.number("forbidden") == 0);
  CHECK(allowed.object.getArray("writes")->size() == size_t(allowed.number("count")));

  std::string description = sample.scratch.file("fuse.yaml");
  writeWholeFile(description, "tapeback-description: 1\nname: fused\nspaces: [bar0]\nregisters:\n"
                              "  - {name: FUSE, space: bar0, offset: 0x4, width: 4, policy: forbidden}\n");
  JsonResult refused = runJson({"replay", sample.path(), "--dry-run", "--description", description});
  CHECK_MESSAGE(refused.run.exited(2), refused.run);
  CHECK(refused.errorCode() == "forbidden-write");
  CHECK(refused.number("forbidden") == 3);
  RunResult named = runTapeback(
      {"replay", sample.path(), "--dry-run", "--description", description, "--allow-register", "FUSE"});
  CHECK_MESSAGE(named.exited(0), named);

  writeWholeFile(description, "tapeback-description: 1\nname: fused\nregisters: 7\n");
  RunResult wrong = runTapeback({"replay", sample.path(), "--dry-run", "--description", description});
  CHECK_MESSAGE(wrong.exited(2), wrong);
  CHECK_MESSAGE(StringRef(wrong.err).contains(description + ":3:"), wrong);
}

TEST_CASE("verify says that everything holds, and compares the root if asked") {
  Sample sample;
  JsonResult verify = runJson({"verify", sample.path()});
  CHECK_MESSAGE(verify.run.exited(0), verify.run);
  CHECK(verify.object.getBoolean("valid") == true);
  CHECK(verify.text("root") == toHex(sample.summary.root));
  CHECK(verify.number("packets") == int64_t(sample.summary.packets));
  CHECK(verify.number("windows") == int64_t(sample.summary.windows));
  std::string root = toHex(sample.summary.root), upper = StringRef(root).upper(), other = root;
  other[0] = other[0] == '0' ? '1' : '0';
  CHECK(runTapeback({"verify", sample.path(), "--root", root}).exited(0));
  CHECK(runTapeback({"verify", sample.path(), "--root", upper}).exited(0));
  RunResult wrong = runTapeback({"verify", sample.path(), "--root", other});
  CHECK_MESSAGE(wrong.exited(1), wrong);
  JsonResult json = runJson({"verify", sample.path(), "--root", other});
  CHECK(json.run.exited(1));
  CHECK(json.object.getBoolean("root_matches") == false);
  CHECK(runTapeback({"verify", sample.path(), "--root", "12"}).exited(2));
  CHECK(runTapeback({"verify", sample.path(), "--root", std::string(64, 'g')}).exited(2));
}

TEST_CASE("recover makes of a cut tape one that verifies, says what was lost, and exits 5") {
  SampleOptions options;
  options.operations = 20000;
  Sample sample(options);
  std::string whole = readWholeFile(sample.path());
  const std::string cut = sample.scratch.file("cut.tape"), out = sample.scratch.file("out.tape");
  writeWholeFile(cut, whole.substr(0, whole.size() * 2 / 3));
  JsonResult recovered = runJson({"recover", cut, "-o", out});
  CHECK_MESSAGE(recovered.run.exited(5), recovered.run);
  CHECK(recovered.object.getBoolean("lost_anything") == true);
  CHECK(recovered.number("packets_kept") > 0);
  CHECK(recovered.number("packets_kept") < int64_t(sample.summary.packets));
  CHECK_FALSE(recovered.object.getArray("notes")->empty());
  CHECK(readWholeFile(cut) == whole.substr(0, whole.size() * 2 / 3)); // Only read.
  CHECK(runTapeback({"verify", out}).exited(0));
  JsonResult info = runJson({"info", out, "--quick"});
  CHECK(info.object.getString("parent_root").has_value());
  CHECK(StringRef(info.text("derivation")).contains("recover"));
  REQUIRE(info.at("losses"));
  CHECK_FALSE(info.at("losses")->empty());
  // What was kept is what was written.
  RunResult before = runTapeback({"dump", sample.path(), "--range", "p0..p500"});
  RunResult after = runTapeback({"dump", out, "--range", "p0..p500"});
  CHECK(before.out == after.out);

  // Not over what is there, unless told to.
  CHECK(runTapeback({"recover", cut, "-o", out}).exited(2));
  RunResult text = runTapeback({"recover", cut, "-o", out, "--force"});
  CHECK_MESSAGE(text.exited(5), text);
  CHECK(StringRef(text.out).contains("something was lost"));
}

TEST_CASE("recover of a whole tape loses nothing and exits 0") {
  Sample sample;
  JsonResult recovered = runJson({"recover", sample.path(), "-o", sample.scratch.file("out.tape")});
  CHECK_MESSAGE(recovered.run.exited(0), recovered.run);
  CHECK(recovered.object.getBoolean("was_complete") == true);
  CHECK(recovered.object.getBoolean("lost_anything") == false);
  CHECK(recovered.number("packets_kept") == int64_t(sample.summary.packets));
  CHECK(runTapeback({"verify", sample.scratch.file("out.tape")}).exited(0));
  CHECK(readWholeFile(sample.scratch.file("out.tape")) == readWholeFile(sample.path()));
}

TEST_CASE("recover whose disk is full exits 5 and leaves nothing behind") {
  Sample sample;
  std::string whole = readWholeFile(sample.path());
  // A limit on file sizes is a full disk for one process.
  RunResult result = runProgram({"/bin/sh", "-c", "ulimit -f 1; exec \"$0\" \"$@\"", tapebackProgram(),
                                 "recover", sample.path(), "-o", sample.scratch.file("out.tape")});
  if (whole.size() > 1024) {
    CHECK_MESSAGE(result.exited(5), result);
    CHECK_MESSAGE(StringRef(result.err).count(": error: ") == 1, result);
    CHECK(sample.scratch.names() == std::vector<std::string>{"a.tape"});
  } else {
    CHECK_MESSAGE(result.exited(0), result);
  }
}

TEST_CASE("trim makes a part a tape of its own, or says why not, and writes nothing half") {
  Sample sample;
  const std::string out = sample.scratch.file("part.tape");
  JsonResult trimmed = runJson({"trim", sample.path(), "--range", "@op#2..end", "-o", out});
  CHECK_MESSAGE(trimmed.run.exited(0), trimmed.run);
  CHECK(trimmed.number("first_window") > 0);
  CHECK(trimmed.number("packets") > 0);
  CHECK(trimmed.object.getBoolean("failure_inside") == true);
  JsonResult verified = runJson({"verify", out});
  CHECK_MESSAGE(verified.run.exited(0), verified.run);
  CHECK(verified.text("root") == trimmed.text("root"));
  JsonResult info = runJson({"info", out});
  CHECK(info.text("parent_root") == toHex(sample.summary.root));
  CHECK(StringRef(info.text("derivation")).contains("trim"));
  CHECK(info.object.get("signature")->kind() == json::Value::Object);
  // The range's own packets are all there.
  RunResult markers = runTapeback({"dump", out, "--kind", "oracle"});
  CHECK(StringRef(markers.out).contains("FAILED: 0x80"));

  for (std::vector<std::string> bad : {std::vector<std::string>{"--range", "w99"},
                                       {"--range", "@none"},
                                       {"--range", "w1..w0"},
                                       {"--range", "nonsense"},
                                       {"--range", "w0", "--start", "magic"}}) {
    bad.insert(bad.begin(), {"trim", sample.path(), "-o", sample.scratch.file("bad.tape")});
    JsonResult result = runJson(bad);
    CHECK_MESSAGE(result.run.exited(2), result.run);
  }
  CHECK(sample.scratch.names() == std::vector<std::string>{"a.tape", "part.tape"});
  CHECK(runTapeback({"trim", sample.path(), "--range", "w0", "-o", out}).exited(2)); // Exists.
}

TEST_CASE("a new tape is never written into standard output's place") {
  Sample sample;
  RunOptions closed;
  closed.outputTo = "closed";
  for (std::vector<std::string> args :
       {std::vector<std::string>{"recover", sample.path(), "-o", sample.scratch.file("r.tape")},
        {"trim", sample.path(), "--range", "start..end", "-o", sample.scratch.file("t.tape")}}) {
    RunResult result = runTapeback(args, closed);
    CHECK_MESSAGE(result.exited(5), result); // The report is lost, the tape is not.
    CHECK_MESSAGE(runTapeback({"verify", args.back()}).exited(0), args.back());
  }
}

TEST_CASE("memory does not grow with the tape") {
  SampleOptions small, large;
  small.operations = 3000;
  large.operations = 60000;
  Sample few(small), many(large);
  for (std::vector<std::string> args : {std::vector<std::string>{"dump", "", "--kind", "oracle"},
                                        {"dump", "", "--range", "@op#2999..@op#3000"},
                                        {"info", ""},
                                        {"verify", ""}}) {
    auto resident = [&](const Sample &sample) {
      args[1] = sample.path();
      RunResult result = runTapeback(args);
      CHECK_MESSAGE(result.exited(0), result.command);
      return result.maxResidentBytes;
    };
    uint64_t before = resident(few), after = resident(many);
    CAPTURE(args[0]);
    // Twenty times the packets; what may grow is the index (tens of bytes a window), not the packets (48
    // each).
    uint64_t packets = (large.operations - small.operations) * samplePerOperation;
#ifdef TAPEBACK_SANITIZED
    CHECK(after < before + packets * 48 * 20); // Shadow memory and quarantine.
#else
    CHECK(after < before + packets * 48 / 2);
#endif
  }
}

TEST_CASE("commands are told by name: dump and info") {
  SampleOptions options;
  options.commands = true;
  Sample sample(options);
  const uint64_t first = sampleCommands(options);
  RunResult text = runTapeback({"dump", sample.path(), "--range", "@commands"});
  CHECK_MESSAGE(text.exited(0), text);
  const std::string load = "p" + std::to_string(first + 3);
  for (const std::string &wanted :
       {std::string(
            "q0 #0 DMA_LOAD host=0x1000 spad=0x40 row_bytes=8 rows=2 host_stride=32 spad_stride=8 at 0x8000"),
        std::string("0x1000, 16 bytes in 2 rows 32 apart"),
        std::string("to device 0x40 from 0x1000, 16 bytes in 2 rows 32 apart"),
        std::string(
            "q0 #1 GEMM m=8 n=16 k=24 a=0x40 b=0x80 c=0xc0 lda=24 ldb=16 ldc=64 accumulate at 0x8040"),
        std::string("q0 #2 FENCE host=0x2000 value=0x7 interrupt at 0x8080"),
        std::string("q1 #0 opcode 0x7f at 0x8000"), "of " + load + ": 0x1000",
        "of " + load + ", once more: 0x1000"})
    CHECK_MESSAGE(StringRef(text.out).contains(wanted), wanted << " in\n" << text.out);

  JsonResult gemm = runJson({"dump", sample.path(), "--range", "p" + std::to_string(first + 4)});
  json::Object packet = firstPacket(gemm);
  CHECK(packet.getString("command") == "GEMM");
  CHECK(packet.getString("queue_name") == "q0");
  CHECK(packet.getObject("operands")->getInteger("k") == 24);
  CHECK(packet.getObject("operands")->getString("c") == "0xc0");

  auto at = [&](uint64_t step) { return int64_t(first + step); };
  CHECK(dumped(sample.path(), {"--command", "GEMM,unknown"}) == Ordinals{at(4), at(6)});
  CHECK(dumped(sample.path(), {"--command", "NOP"}).empty());
  JsonResult near = runJson({"dump", sample.path(), "--command", "GEM"});
  CHECK(near.run.exited(2));
  CHECK(near.errorCode() == "no-such-command");
  CHECK(near.at("error")->getString("hint") == "did you mean 'GEMM'?");

  JsonResult info = runJson({"info", sample.path()});
  const json::Array *commands = info.object.getArray("commands");
  REQUIRE(commands);
  std::string counted;
  for (const json::Value &command : *commands)
    counted += (*command.getAsObject()->getString("command") + "=" +
                std::to_string(*command.getAsObject()->getInteger("count")) + " ")
                   .str();
  CHECK(counted == "DMA_LOAD=1 FENCE=1 GEMM=1 unknown=1 ");
  RunResult said = runTapeback({"info", sample.path()});
  CHECK(StringRef(said.out).contains("commands  DMA_LOAD          1\n"));
  CHECK(!StringRef(runTapeback({"info", sample.path(), "--quick"}).out).contains("DMA_LOAD"));
  // Without a description they are numbers.
  options.description = false;
  Sample plain(options);
  CHECK(StringRef(runTapeback({"dump", plain.path()}).out).contains("queue 1 #0: 0x8000, 64 bytes"));
  CHECK(StringRef(runTapeback({"info", plain.path()}).out).contains("commands  unknown           4\n"));
  CHECK(dumped(plain.path(), {"--command", "unknown"}).size() == 4);
  CHECK(runTapeback({"dump", plain.path(), "--command", "GEMM"}).exited(2));
}

TEST_CASE("device show tells of queues and their commands") {
  RunResult text = runTapeback({"device", "show", "minnow"});
  CHECK_MESSAGE(text.exited(0), text);
  for (const char *wanted :
       {"q1: Q1_SIZE entries (command) at Q1_BASE_LO, Q1_BASE_HI; handed over by Q1_DOORBELL",
        "all are drained when STATUS & 0x80000004 == 0x4", "GEMM (0x10): tag m n k a b c",
        "moves rows rows of row_bytes bytes to the device, from host to spad in window scratchpad",
        "goes on with descriptors from next, at most 256", "writes value to host when all before it is done",
        "scratchpad: 65536 bytes at 0x0, through DBG_ADDR and DBG_DATA while CONTROL & 0x1 == 0x0 or STATUS",
        "READ_BURSTS      bursts, data-movement, 16 bits\n"})
    CHECK_MESSAGE(StringRef(text.out).contains(wanted), wanted << " in\n" << text.out);
  JsonResult show = runJson({"device", "show", "minnow"});
  CHECK(show.number("queue_count") == 2);
  CHECK(show.object.getArray("queues")->size() == 2);
  CHECK(show.object.getArray("layouts")->size() == 2);
  CHECK((*show.object.getArray("queues"))[1].getAsObject()->getString("doorbell") == "Q1_DOORBELL");
}
