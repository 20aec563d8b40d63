// The loop on Minnow: what is recorded on its RTL replays on its model and the other way round; with an
// erratum on, the replay diverges, and bisect names the operation in which the erratum acts. Where that is
// follows from how the workload was made (programs/MinnowErrata.cpp), not from the tools.
#include "format/TapeReader.h"
#include "format/Text.h"
#include "hal/minnow/driver/Commands.h"
#include "tests/support/RunProgram.h"
#include "tests/support/Skip.h"
#include <doctest/doctest.h>
#include <fstream>

using namespace tapeback;
using namespace tapeback::test;
using std::chrono::seconds;

#ifdef TAPEBACK_HAS_RTL
#define RTL_OR_SKIP()
#else
#define RTL_OR_SKIP() TB_SKIP("verilator was not found when this was built")
#endif

namespace {

llvm::json::Object parseOutput(const RunResult &result) {
  llvm::Expected<llvm::json::Value> value = parseJson(result.out, "output", {64u << 20, 64});
  if (!value) {
    FAIL_CHECK("no JSON: ", llvm::toString(value.takeError()), "\n", result);
    return {};
  }
  llvm::json::Object *object = value->getAsObject();
  REQUIRE(object);
  return std::move(*object);
}

RunResult runTapeback(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), tapebackProgram());
  RunOptions options;
  options.timeout = seconds(300);
  return runProgram(arguments, options);
}

ScratchDirectory &scratch() {
  static ScratchDirectory directory;
  return directory;
}

std::string record(const std::string &target, std::vector<std::string> program, const std::string &name) {
  std::string path = scratch().file(name + ".tape");
  std::vector<std::string> arguments{"record", "--json", "--target", target, "-o", path, "--"};
  arguments.insert(arguments.end(), program.begin(), program.end());
  RunResult result = runTapeback(arguments);
  REQUIRE_MESSAGE(result.exited(0), result);
  return path;
}

std::string string(const llvm::json::Object &object, llvm::StringRef key) {
  return object.getString(key).value_or("(absent)").str();
}

/// Packets from the n-th marker of that name up to the next one of any name.
struct MarkedPackets {
  uint64_t first = 0, end = 0;
};
MarkedPackets packetsOf(TapeReader &tape, llvm::StringRef name, uint64_t occurrence) {
  MarkedPackets found;
  PacketBatch batch;
  uint64_t total = tape.summary().packets, seen = 0;
  for (uint64_t at = 0; at < total; at += batch.packets.size()) {
    llvm::Error error = tape.readBlockFrom(at, batch);
    REQUIRE(!error);
    for (size_t i = 0; i < batch.packets.size(); ++i) {
      if (batch.packets[i].kind != PacketKind::Marker)
        continue;
      if (found.first && !found.end)
        found.end = at + i;
      llvm::Expected<llvm::ArrayRef<uint8_t>> text = tape.blob(batch.extra(batch.packets[i]).payload);
      REQUIRE(bool(text));
      if (llvm::toStringRef(*text) == name && ++seen == occurrence)
        found.first = at + i;
    }
  }
  REQUIRE(found.first);
  if (!found.end)
    found.end = total;
  return found;
}

constexpr unsigned hitOperation = 5, lateBy = 100;

struct ErratumCase {
  const char *name, *options;
  bool late;           ///< Seen by the host `lateBy` operations after it acted.
  const char *space;   ///< Where deep sees it; null: as the host does.
  const char *command; ///< What the guilty doorbell's commands have.
};
const ErratumCase cases[] = {
    {"dma-4k-last-beat", "", true, "scratchpad", "DMA_LOAD"},
    {"requant-wrap", "", true, "scratchpad", "REQUANT"},
    {"stale-scratchpad", "", true, "scratchpad", "VADD8"},
    {"counter-stall", "", true, "counters", "DMA_LOAD"},
    {"reset-head", "", true, "bar0", ""},
    {"fence-overtake", "&jitter=256&seed=3", false, nullptr, "DMA_STORE"},
    {"wrap-full-hang", "", false, "bar0", "NOP"},
    {"chain-prefetch", "", false, "bar0", "DMA_CHAIN"},
};

/// The place must lie in the operation: packet, window and the tool's own words.
void checkOperation(const llvm::json::Object *place, TapeReader &tape, unsigned operation,
                    const std::string &output) {
  REQUIRE_MESSAGE(place, output);
  MarkedPackets expected = packetsOf(tape, "op", operation);
  int64_t packet = place->getInteger("packet").value_or(-1);
  CHECK_MESSAGE((packet >= int64_t(expected.first) && packet < int64_t(expected.end)), output);
  llvm::Expected<uint64_t> window = tape.windowOfPacket(uint64_t(packet));
  REQUIRE(bool(window));
  CHECK(place->getInteger("window").value_or(-1) == int64_t(*window));
  CHECK(string(*place, "marker") == "op");
  CHECK(place->getInteger("occurrence").value_or(0) == operation);
}

} // namespace

TEST_CASE("Minnow's workloads replay both ways") {
  RTL_OR_SKIP();
  struct Workload {
    const char *name;
    std::vector<std::string> program;
  };
  const Workload workloads[] = {
      {"ad", {buildProgram("minnow-run"), "--net", "ad"}},
      {"stress", {buildProgram("minnow-stress"), "--seed", "1", "--commands", "300"}},
      {"errata", {buildProgram("tests/minnow-errata"), "counter-stall", "--late", "20"}},
  };
  const char *const layouts[] = {"shift=0x1000000",      "fragment", "reverse", "seed=5",
                                 "shift=0x123456789000", "seed=6"};
  size_t next = 0;
  for (const Workload &workload : workloads)
    for (const std::string from : {"rtl:minnow", "model:minnow"}) {
      std::string tape = record(from, workload.program, std::string(workload.name) + "-" + from.substr(0, 3));
      for (const std::string to : {"rtl:minnow", "model:minnow"}) {
        CAPTURE(workload.name);
        CAPTURE(from);
        CAPTURE(to);
        RunResult result = runTapeback({"replay", tape, "--target", to, "--json"});
        REQUIRE_MESSAGE(result.exited(0), result);
        llvm::json::Object output = parseOutput(result);
        CHECK(string(output, "verdict") == "match");
        CHECK(output.getInteger("packets").value_or(0) > 200);
        if (from == to)
          continue;
        // The same elsewhere in memory.
        const char *layout = layouts[next++ % std::size(layouts)];
        CAPTURE(layout);
        RunResult elsewhere = runTapeback({"replay", tape, "--target", to, "--relocate", layout, "--json"});
        REQUIRE_MESSAGE(elsewhere.exited(0), elsewhere);
        llvm::json::Object report = parseOutput(elsewhere);
        const llvm::json::Object *device = report.getArray("relocation")->front().getAsObject();
        CHECK(device->getInteger("moved").value_or(-1) == device->getInteger("ranges"));
        CHECK(device->getInteger("pointers").value_or(0) > 0);
        CHECK(string(*report.getObject("digest"), "replayed") ==
              string(*output.getObject("digest"), "replayed"));
      }
    }
  // A range out of the middle replays as well, from a keyframe that goes in through the debug port.
  std::string part = scratch().file("part.tape");
  RunResult trimmed =
      runTapeback({"trim", scratch().file("ad-rtl.tape"), "--range", "w20..w30", "-o", part, "--json"});
  REQUIRE_MESSAGE(trimmed.exited(0), trimmed);
  for (const std::string to : {"rtl:minnow", "model:minnow"})
    CHECK_MESSAGE(runTapeback({"replay", part, "--target", to, "--json"}).exited(0), to);
  // Two devices that differ in time only have no state to differ in either.
  RunResult result = runTapeback({"bisect", scratch().file("stress-rtl.tape"), "--good", "model:minnow",
                                  "--bad", "rtl:minnow?jitter=100", "--probe", "deep", "--json"});
  REQUIRE_MESSAGE(result.exited(0), result);
  CHECK(parseOutput(result).getObject("coverage")->getInteger("windows_probed").value_or(0) > 10);
}

TEST_CASE("each erratum diverges, and bisect names the operation in which it acts") {
  RTL_OR_SKIP();
  for (const ErratumCase &erratum : cases) {
    CAPTURE(erratum.name);
    std::string bad = std::string("rtl:minnow?errata=") + erratum.name + erratum.options;
    std::string path = record(bad,
                              {buildProgram("tests/minnow-errata"), erratum.name, "--hit",
                               std::to_string(hitOperation), "--late", std::to_string(lateBy)},
                              erratum.name);
    auto tape = TapeReader::open(path);
    REQUIRE(bool(tape));
    CHECK((*tape)->outcome().kind == Outcome::Kind::Failed); // The program saw it.

    RunResult replay = runTapeback({"replay", path, "--target", "model:minnow", "--json"});
    REQUIRE_MESSAGE(replay.exited(1), replay);
    llvm::json::Object replayed = parseOutput(replay);
    CHECK(string(replayed, "verdict") == "divergence");
    unsigned shown = hitOperation + (erratum.late ? lateBy : 0);
    checkOperation(replayed.getObject("first_divergence"), **tape, shown, replay.out);

    std::string wave = scratch().file(std::string(erratum.name) + ".fst");
    RunResult bisect = runTapeback({"bisect", path, "--good", "model:minnow", "--bad", bad, "--probe", "deep",
                                    "--wave", wave, "--json"});
    REQUIRE_MESSAGE(bisect.exited(1), bisect);
    llvm::json::Object output = parseOutput(bisect);
    const llvm::json::Object *place = output.getObject("first_divergence");
    checkOperation(place, **tape, hitOperation, bisect.out);
    CHECK(string(output, "method") == "deep-snapshot");
    if (erratum.late) // Looking is put back, and nothing is played twice from the start.
      CHECK(output.getInteger("packets_to_bad").value_or(0) * 2 < int64_t((*tape)->summary().packets) * 3);
    checkOperation(output.getObject("first_observed"), **tape, shown, bisect.out);
    if (erratum.space)
      CHECK(string(*place, "space") == erratum.space);
    CHECK_MESSAGE(string(*place, "command_text").find(erratum.command) != std::string::npos, bisect.out);
    const llvm::json::Object *written = output.getObject("wave");
    REQUIRE(written);
    CHECK(string(*written, "endpoint") == "bad");
    CHECK(written->getInteger("window") == place->getInteger("window"));
    // An FST file begins with its header block: type 0, length, first and last time (here in ns).
    std::ifstream fst(wave, std::ios::binary);
    auto number = [&] {
      uint64_t value = 0;
      for (int i = 0; i < 8; ++i)
        value = value << 8 | uint8_t(fst.get());
      return value;
    };
    CHECK(fst.get() == 0);
    CHECK(number() > 0);
    uint64_t begins = number(), ends = number();
    CHECK(ends > begins);
    if (erratum.late) // An operation, of 155.
      CHECK(ends - begins < 200'000);
    // When it happened, on the waveform's axis; to the cycle where the byte that is wrong is one that came.
    const llvm::json::Object *moment = output.getObject("device_time");
    CHECK_MESSAGE((moment || !erratum.space), bisect.out);
    if (moment) {
      uint64_t from = uint64_t(moment->getInteger("from").value_or(-1)),
               to = uint64_t(moment->getInteger("to").value_or(-1));
      CHECK(from < to);
      CHECK(from >= begins);
      CHECK(from <= ends);
      bool came =
          erratum.name == std::string("requant-wrap") || erratum.name == std::string("stale-scratchpad");
      std::optional<int64_t> changed = moment->getInteger("changed");
      CHECK_MESSAGE((!came || changed), bisect.out);
      if (changed) {
        CHECK(*changed > int64_t(from));
        CHECK(*changed <= int64_t(to));
        CHECK(*changed % 10 == 0); // A cycle.
      }
    }
    if (erratum.late) {
      const llvm::json::Object *observed = output.getObject("first_observed");
      CHECK(observed->getInteger("window").value_or(0) >=
            place->getInteger("window").value_or(0) + int64_t(lateBy));
    }
  }
}

namespace {

struct TapePacket {
  Packet packet;
  PacketExtra extra;
};
std::vector<TapePacket> allPackets(TapeReader &tape) {
  std::vector<TapePacket> all;
  PacketBatch batch;
  for (uint64_t at = 0; at < tape.summary().packets; at += batch.packets.size()) {
    llvm::Error error = tape.readBlockFrom(at, batch);
    REQUIRE(!error);
    for (const Packet &packet : batch.packets)
      all.push_back({packet, batch.extra(packet)});
  }
  return all;
}

/// The write that hands over the entry that packet `at` belongs to.
uint64_t doorbellBehind(const std::vector<TapePacket> &packets, uint64_t at) {
  uint64_t queue = 0;
  for (uint64_t back = at;; --back)
    if (packets[back].packet.kind == PacketKind::Submit) {
      queue = packets[back].packet.value;
      break;
    }
  for (; at < packets.size(); ++at)
    if (packets[at].packet.kind == PacketKind::RegisterWrite &&
        packets[at].packet.address == MINNOW_QUEUE + MINNOW_QUEUE_STRIDE * queue + MINNOW_Q_DOORBELL)
      return at;
  FAIL("no doorbell");
  return 0;
}

/// By ERRATA.md: the first load of which a burst, counted from its row's start, is split by a page.
uint64_t firstSplitLoad(const std::vector<TapePacket> &packets) {
  for (uint64_t at = 0; at < packets.size(); ++at) {
    const auto &[packet, extra] = packets[at];
    if (packet.kind != PacketKind::DmaDescriptor || !(packet.flags & TransferToDevice))
      continue;
    uint64_t rows = std::max<uint64_t>(1, extra.count), bytes = extra.length / rows;
    for (uint64_t row = 0; row < rows; ++row)
      for (uint64_t burst = 0; burst < bytes; burst += 64) {
        uint64_t first = packet.address + row * extra.expected + burst;
        uint64_t last = first + std::min<uint64_t>(64, bytes - burst) - 1;
        if (first / 4096 != last / 4096)
          return doorbellBehind(packets, at);
      }
  }
  return 0;
}

uint64_t firstChain(TapeReader &tape, const std::vector<TapePacket> &packets) {
  for (uint64_t at = 0; at < packets.size(); ++at) {
    if (packets[at].packet.kind != PacketKind::Submit)
      continue;
    llvm::Expected<llvm::ArrayRef<uint8_t>> entry = tape.blob(packets[at].extra.payload);
    REQUIRE(bool(entry));
    if (entry->front() == MINNOW_DMA_CHAIN)
      return doorbellBehind(packets, at);
  }
  return 0;
}

} // namespace

TEST_CASE("what was recorded on the model diverges on RTL where an erratum acts, wherever memory is") {
  RTL_OR_SKIP();
  for (const std::string erratum : {"dma-4k-last-beat", "requant-wrap", "counter-stall", "chain-prefetch"}) {
    CAPTURE(erratum);
    std::string path = record(
        "model:minnow",
        {buildProgram("tests/minnow-errata"), erratum, "--hit", std::to_string(hitOperation), "--late", "10"},
        "sound-" + erratum);
    auto tape = TapeReader::open(path);
    REQUIRE(bool(tape));
    bool late = erratum != "chain-prefetch";
    for (const std::string layout : {"auto", "fragment"}) {
      CAPTURE(layout);
      RunResult result = runTapeback(
          {"replay", path, "--target", "rtl:minnow?errata=" + erratum, "--relocate", layout, "--json"});
      // A list that changes itself cannot be relocated.
      if (layout != "auto" && result.exited(2)) {
        CHECK((result.out + result.err).find("written by the device itself") != std::string::npos);
        CHECK(erratum == "chain-prefetch");
        continue;
      }
      REQUIRE_MESSAGE(result.exited(1), result);
      checkOperation(parseOutput(result).getObject("first_divergence"), **tape,
                     hitOperation + (late ? 10 : 0), result.out);
    }
  }
}

TEST_CASE("in a network, too, the packet is named in which an erratum acts") {
  RTL_OR_SKIP();
  for (const std::string erratum : {"dma-4k-last-beat", "chain-prefetch"}) {
    CAPTURE(erratum);
    std::string bad = "rtl:minnow?errata=" + erratum;
    std::string path = record(bad, {buildProgram("minnow-run"), "--net", "ad"}, "net-" + erratum);
    auto tape = TapeReader::open(path);
    REQUIRE(bool(tape));
    std::vector<TapePacket> packets = allPackets(**tape);
    uint64_t guilty = erratum == "dma-4k-last-beat" ? firstSplitLoad(packets) : firstChain(**tape, packets);
    REQUIRE(guilty);
    RunResult replay = runTapeback({"replay", path, "--target", "model:minnow", "--json"});
    REQUIRE_MESSAGE(replay.exited(1), replay);
    RunResult bisect =
        runTapeback({"bisect", path, "--good", "model:minnow", "--bad", bad, "--probe", "deep", "--json"});
    REQUIRE_MESSAGE(bisect.exited(1), bisect);
    llvm::json::Object output = parseOutput(bisect);
    const llvm::json::Object *place = output.getObject("first_divergence");
    REQUIRE(place);
    CHECK_MESSAGE(place->getInteger("packet").value_or(-1) == int64_t(guilty), bisect.out);
    const llvm::json::Object *observed = output.getObject("first_observed");
    REQUIRE(observed);
    CHECK(observed->getInteger("packet").value_or(0) > int64_t(guilty));
  }
}

TEST_CASE("without the erratum there is nothing to find, and without traces no waveform") {
  std::string path =
      record("model:minnow", {buildProgram("tests/minnow-errata"), "requant-wrap", "--late", "10"}, "sound");
  RunResult same =
      runTapeback({"bisect", path, "--good", "model:minnow", "--bad",
                   "model:minnow?access-time=300&memory-latency=90", "--probe", "deep", "--json"});
  REQUIRE_MESSAGE(same.exited(0), same);
  CHECK(parseOutput(same).getObject("first_divergence") == nullptr);

  // What it would do, one step of it, and results that are kept.
  std::vector<std::string> deep{"bisect",       path,    "--good",
                                "model:minnow", "--bad", "model:minnow?memory-latency=90",
                                "--probe",      "deep",  "--json"};
  auto with = [&](std::initializer_list<std::string> more) {
    std::vector<std::string> args = deep;
    args.insert(args.end(), more);
    RunResult result = runTapeback(args);
    CHECK_MESSAGE(result.exited(0), result);
    return parseOutput(result);
  };
  llvm::json::Object plan = with({"--plan"});
  REQUIRE(plan.getObject("plan"));
  CHECK(string(*plan.getObject("plan"), "method") == "deep-snapshot");
  CHECK(string(*with({"--plan", "--no-snapshots"}).getObject("plan"), "method") == "deep-lockstep");
  llvm::json::Object probe = with({"--at", "w7"});
  REQUIRE(probe.getObject("probe"));
  CHECK(!probe.getObject("probe")->getBoolean("differs").value_or(true));
  std::string state = scratch().file("bisect.state");
  for (bool again : {false, true}) {
    llvm::json::Object kept =
        with({"--state", state, "--intermittent", "--rate-runs", "3", "--max-replays", "4"});
    CHECK(kept.getInteger("resumed").value_or(0) == (again ? 6 : 0)); // Two passes and four probes.
    CHECK(string(*kept.getObject("search"), "state") == "out-of-probes");
  }
  deep[3] = "model:edu";
  std::vector<std::string> other = deep;
  other.insert(other.end(), {"--state", state});
  CHECK_MESSAGE(runTapeback(other).exited(2), "a state is of one pair of targets");

  // Another device altogether, and neither it nor the model has waveforms.
  std::string wave = scratch().file("none.fst");
  RunResult none =
      runTapeback({"bisect", path, "--good", "model:minnow", "--bad", "model:edu", "--wave", wave, "--json"});
  REQUIRE_MESSAGE(none.exited(1), none);
  llvm::json::Object output = parseOutput(none);
  const llvm::json::Object *written = output.getObject("wave");
  REQUIRE(written);
  CHECK(written->get("file")->kind() == llvm::json::Value::Null);
  CHECK(string(*written, "reason") == "neither endpoint has traces");
  CHECK(!std::ifstream(wave));
  RunResult nowhere = runTapeback({"bisect", path, "--good", "model:minnow", "--bad", "model:edu", "--wave",
                                   scratch().file("no/such/folder/x.fst"), "--json"});
  CHECK_MESSAGE(nowhere.exited(2), nowhere);
}

TEST_CASE("replay leaves a waveform of a range of windows, and only where there are waveforms") {
  RTL_OR_SKIP();
  std::string path =
      record("rtl:minnow", {buildProgram("minnow-run"), "--net", "ad", "--layers", "2"}, "waves");
  auto size = [](const std::string &file) {
    std::ifstream fst(file, std::ios::binary | std::ios::ate);
    return fst ? int64_t(fst.tellg()) : -1;
  };
  std::string whole = scratch().file("whole.fst"), part = scratch().file("part.fst");
  RunResult all = runTapeback({"replay", path, "--target", "rtl:minnow", "--wave", whole, "--json"});
  REQUIRE_MESSAGE(all.exited(0), all);
  CHECK(string(parseOutput(all), "wave") == whole);
  RunResult some = runTapeback(
      {"replay", path, "--target", "rtl:minnow", "--wave", part, "--wave-range", "w4..w5", "--json"});
  REQUIRE_MESSAGE(some.exited(0), some);
  CHECK(std::ifstream(part, std::ios::binary).get() == 0); // The header block of an FST.
  CHECK(size(part) > 0);
  CHECK(size(part) < size(whole));
  // What it shows does not change what is compared.
  CHECK(parseOutput(all).getInteger("packets_replayed") == parseOutput(some).getInteger("packets_replayed"));

  std::string none = scratch().file("none-replay.fst");
  RunResult model = runTapeback({"replay", path, "--target", "model:minnow", "--wave", none, "--json"});
  CHECK_MESSAGE(model.exited(2), model);
  CHECK(size(none) == -1);
  RunResult alone = runTapeback({"replay", path, "--target", "rtl:minnow", "--wave-range", "w1", "--json"});
  CHECK_MESSAGE(alone.exited(2), alone);
  RunResult behind = runTapeback({"replay", path, "--target", "rtl:minnow", "--wave", none, "--wave-range",
                                  "w4", "--until", "w2", "--json"});
  REQUIRE_MESSAGE(behind.exited(0), behind);
  CHECK(parseOutput(behind).get("wave")->kind() == llvm::json::Value::Null);
  CHECK(size(none) == -1);
}
