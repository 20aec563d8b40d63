// The loop, end to end, on QEMU's edu device: record, replay there and on the reference model, plant a fault,
// and name the first divergent window, packet and byte. What is right is worked out from the seed
// (EduOracle), not by the tools.
#include "format/TapeReader.h"
#include "format/Text.h"
#include "tests/e2e/EduOracle.h"
#include "tests/support/NeedQemu.h"
#include "tests/support/RunProgram.h"
#include <doctest/doctest.h>

using namespace tapeback;
using namespace tapeback::test;
using std::chrono::seconds;

namespace {

/// With this seed dma-last-byte first loses a byte inside the device, and the host sees it hundreds of
/// windows later.
constexpr uint64_t seed = 1785;
/// What does not depend on how many operations there are takes few; the answers come from plans of the same
/// seed. A long session is played once each way.
constexpr uint64_t fewOperations = 600;
#ifdef TAPEBACK_SANITIZED
constexpr uint64_t manyOperations = fewOperations;
#else
constexpr uint64_t manyOperations = 5000;
#endif

const std::vector<edu::PlanOperation> &plan() {
  static const std::vector<edu::PlanOperation> all = edu::makePlan({seed, fewOperations});
  return all;
}

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

/// A tape of the exerciser on `target`, made once for each target and length and kept for the whole test
/// program.
std::string recordOn(const std::string &target, uint64_t operations = fewOperations) {
  static ScratchDirectory scratch;
  static std::map<std::pair<std::string, uint64_t>, std::string> tapes;
  std::string &path = tapes[{target, operations}];
  if (!path.empty())
    return path;
  path = scratch.file("t" + std::to_string(tapes.size()) + ".tape");
  RunResult result =
      runTapeback({"record", "--json", "--target", target, "-o", path, "--", buildProgram("edu-exercise"),
                   "--seed", std::to_string(seed), "--ops", std::to_string(operations), "--keep-going"});
  REQUIRE_MESSAGE(result.exited(0), result);
  return path;
}

std::string string(const llvm::json::Object &object, llvm::StringRef key) {
  return object.getString(key).value_or("(absent)").str();
}

/// `place` must be the packet that the plan says.
void checkPlace(const llvm::json::Object &output, const std::string &tapePath,
                const ExpectedDivergence &expected) {
  const llvm::json::Object *place = output.getObject("first_divergence");
  REQUIRE(place);
  auto tape = TapeReader::open(tapePath);
  REQUIRE(bool(tape));
  llvm::Expected<uint64_t> packet = packetOf(**tape, expected);
  REQUIRE_MESSAGE(bool(packet), llvm::toString(packet.takeError()));
  llvm::Expected<uint64_t> window = (*tape)->windowOfPacket(*packet);
  REQUIRE(bool(window));
  CHECK(place->getInteger("packet").value_or(-1) == int64_t(*packet));
  CHECK(place->getInteger("window").value_or(-1) == int64_t(*window));
  CHECK(place->getInteger("offset").value_or(-1) == int64_t(expected.offset));
  CHECK(string(*place, "kind") == packetKindName(expected.kind));
  CHECK(string(*place, "marker") == "op");
}

struct FaultCase {
  std::string name, bad;
  std::optional<ExpectedDivergence> expected;
  bool withQemu = true; ///< As the good side, too. Slow: where it adds something.
};

std::vector<FaultCase> faultCases() {
  return {
      {"dma-last-byte", "model:edu?fault=dma-last-byte", observedLastByte(plan())},
      {"factorial", "model:edu?fault=factorial&operand=7", observedFactorial(plan(), 7), false},
      {"irq-sticky", "model:edu?fault=irq-sticky", observedSticky(plan())},
      // The description's fingerprint reads LIVENESS once after the reset.
      {"liveness", "model:edu?fault=liveness&after=40", observedLiveness(plan(), 40, 1)}, // It heals.
      {"pair", "model:edu?fault=pair", observedPair(plan()), false},
      {"early-done", "model:edu?fault=early-done", observedEarly(plan()), false},
  };
}

} // namespace

TEST_CASE("a session recorded on QEMU replays on QEMU and on the model") {
  TB_NEED_QEMU();
  std::string tape = recordOn("qemu:edu", manyOperations);
  CHECK_MESSAGE(runTapeback({"verify", tape}).exited(0), "verify");
  for (const std::string target : {"qemu:edu", "model:edu"}) {
    CAPTURE(target);
    RunResult result = runTapeback({"replay", tape, "--target", target, "--json"});
    REQUIRE_MESSAGE(result.exited(0), result);
    llvm::json::Object output = parseOutput(result);
    CHECK(string(output, "schema") == "tapeback.replay/1");
    CHECK(string(output, "verdict") == "match");
    CHECK(output.getInteger("packets").value_or(0) > int64_t(manyOperations) * 4);
    CHECK(output.getInteger("windows").value_or(0) >= int64_t(manyOperations));
  }
}

TEST_CASE("a session recorded on the model replays on the model and on QEMU, at other addresses, too") {
  std::vector<std::string> targets{"model:edu"};
  if (haveQemu())
    targets.push_back("qemu:edu");
  for (const std::string &target : targets)
    for (const std::string layout : {"auto", "shift=0x300000", "reverse"}) {
      CAPTURE(target);
      CAPTURE(layout);
      std::string tape = recordOn("model:edu", layout == "auto" ? manyOperations : fewOperations);
      RunResult result = runTapeback({"replay", tape, "--target", target, "--relocate", layout, "--json"});
      REQUIRE_MESSAGE(result.exited(0), result);
      llvm::json::Object output = parseOutput(result);
      CHECK(string(output, "verdict") == "match");
      const llvm::json::Object *device = output.getArray("relocation")->front().getAsObject();
      CHECK(device->getInteger("moved").value_or(-1) ==
            (layout == "auto" ? 0 : device->getInteger("ranges")));
      CHECK((device->getInteger("registers").value_or(0) > 0) == (layout != "auto"));
    }
}

TEST_CASE("every planted fault diverges where the plan says") {
  TB_NEED_QEMU();
  std::string tape = recordOn("qemu:edu");
  for (const FaultCase &fault : faultCases()) {
    CAPTURE(fault.name);
    REQUIRE(fault.expected); // Otherwise the plan never meets it, and nothing would be tested.
    RunResult replay = runTapeback({"replay", tape, "--target", fault.bad, "--json"});
    REQUIRE_MESSAGE(replay.exited(1), replay);
    llvm::json::Object output = parseOutput(replay);
    CHECK(string(output, "verdict") == "divergence");
    checkPlace(output, tape, *fault.expected);

    for (const std::string good : {"model:edu", "qemu:edu"}) {
      CAPTURE(good);
      if (good != "model:edu" && !fault.withQemu)
        continue;
      RunResult bisect = runTapeback({"bisect", tape, "--good", good, "--bad", fault.bad, "--json"});
      REQUIRE_MESSAGE(bisect.exited(1), bisect);
      checkPlace(parseOutput(bisect), tape, *fault.expected);
    }
  }
}

TEST_CASE("a fault in hidden state is found where it happened, not where it showed") {
  TB_NEED_QEMU();
  std::string tape = recordOn("qemu:edu");
  std::optional<HiddenDivergence> hidden = hiddenLastByte(plan());
  REQUIRE(hidden);
  std::optional<ExpectedDivergence> shown = observedLastByte(plan());
  REQUIRE(shown);
  REQUIRE(shown->operation >= hidden->operation + 100); // Two windows an operation, at least.
  auto reader = TapeReader::open(tape);
  REQUIRE(bool(reader));
  llvm::Expected<OperationPackets> range = packetsOfOperation(**reader, hidden->operation);
  REQUIRE(bool(range));
  for (const std::string good : {"model:edu", "qemu:edu"}) {
    CAPTURE(good);
    RunResult result = runTapeback({"bisect", tape, "--good", good, "--bad", "model:edu?fault=dma-last-byte",
                                    "--probe", "deep", "--json"});
    REQUIRE_MESSAGE(result.exited(1), result);
    llvm::json::Object output = parseOutput(result);
    const llvm::json::Object *place = output.getObject("first_divergence");
    REQUIRE(place);
    int64_t packet = place->getInteger("packet").value_or(-1);
    CHECK_MESSAGE((packet >= int64_t(range->first) && packet < int64_t(range->end)), result.out);
    llvm::Expected<uint64_t> window = (*reader)->windowOfPacket(uint64_t(packet));
    REQUIRE(bool(window));
    CHECK(place->getInteger("window").value_or(-1) == int64_t(*window));
    CHECK(place->getInteger("offset").value_or(-1) == int64_t(hidden->bufferOffset));
    CHECK(string(*place, "space") == "buffer");
    const llvm::json::Object *observed = output.getObject("first_observed");
    REQUIRE(observed);
    CHECK(observed->getInteger("window").value_or(0) >= int64_t(*window) + 200);
    CHECK(output.getInteger("probes").value_or(0) > 0);
    CHECK(output.get("coverage"));
    CHECK(output.getObject("last_writer"));
    // QEMU has no snapshots: probes inside the window begin with a keyframe.
    if (good == "qemu:edu")
      CHECK_MESSAGE(output.getInteger("inside_start").value_or(packet + 1) <= packet, result.out);
  }
}

TEST_CASE("a fault that only the device's memory shows, and that heals, is found where it happened") {
  std::string tape = recordOn("model:edu");
  std::optional<HiddenDivergence> hidden = hiddenLastByte(plan());
  REQUIRE(hidden);
  auto reader = TapeReader::open(tape);
  REQUIRE(bool(reader));
  llvm::Expected<OperationPackets> range = packetsOfOperation(**reader, hidden->operation);
  REQUIRE(bool(range));
  RunResult unseen =
      runTapeback({"bisect", tape, "--good", "model:edu", "--bad", "model:edu?fault=dma-heals", "--json"});
  REQUIRE_MESSAGE(unseen.exited(0), unseen); // The host sees nothing.
  // By a pass with snapshots, and by one that looks where it is free.
  for (const std::string way : {"deep-snapshot", "deep-lockstep"}) {
    CAPTURE(way);
    std::vector<std::string> args{"bisect",    tape,    "--good",
                                  "model:edu", "--bad", "model:edu?fault=dma-heals",
                                  "--probe",   "deep",  "--json"};
    if (way == "deep-lockstep")
      args.push_back("--no-snapshots");
    RunResult result = runTapeback(args);
    REQUIRE_MESSAGE(result.exited(1), result);
    llvm::json::Object output = parseOutput(result);
    CHECK(string(output, "method") == way);
    CHECK(output.getBoolean("healed").value_or(false));
    CHECK(output.getObject("first_observed") == nullptr);
    const llvm::json::Object *place = output.getObject("first_divergence");
    REQUIRE(place);
    int64_t packet = place->getInteger("packet").value_or(-1);
    CHECK_MESSAGE((packet >= int64_t(range->first) && packet < int64_t(range->end)), result.out);
    CHECK(place->getInteger("offset").value_or(-1) == int64_t(hidden->bufferOffset));
    // Who wrote it, and what each side had: another byte in the buffer, the same one in memory.
    const llvm::json::Array *writers = output.getArray("writers");
    REQUIRE(writers);
    REQUIRE(writers->size() >= 2);
    const llvm::json::Object &buffer = *(*writers)[0].getAsObject(), &memory = *(*writers)[1].getAsObject();
    CHECK(string(buffer, "good") == string(*place, "good"));
    CHECK(string(buffer, "bad") == string(*place, "bad"));
    CHECK(string(buffer, "bad") != string(buffer, "good"));
    CHECK(string(memory, "good") == string(buffer, "good"));
    CHECK(string(memory, "bad") == string(buffer, "good"));
  }
}

TEST_CASE("good against good does not differ") {
  const std::string tape = recordOn("model:edu");
  CHECK(
      runTapeback({"bisect", tape, "--good", "model:edu", "--bad", "model:edu", "--max-wait", "0", "--json"})
          .exited(2));
  RunResult result =
      runTapeback({"bisect", tape, "--good", "model:edu", "--bad", "model:edu?factorial-time=900", "--json"});
  REQUIRE_MESSAGE(result.exited(0), result);
  llvm::json::Object output = parseOutput(result);
  CHECK(output.get("first_divergence") != nullptr);
  CHECK(output.getObject("first_divergence") == nullptr); // Present and null.
}

TEST_CASE("a failing session reproduces its signature on the faulty target only") {
  for (const FaultCase &fault : faultCases()) {
    if (fault.name == "liveness") // Which read is wrong depends on how many the recorder's fingerprint makes.
      continue;
    CAPTURE(fault.name);
    std::string tape = recordOn(fault.bad);
    RunResult info = runTapeback({"info", tape, "--json"});
    REQUIRE_MESSAGE(info.exited(0), info);

    RunResult same = runTapeback({"replay", tape, "--target", fault.bad, "--expect", "signature", "--json"});
    CHECK_MESSAGE(same.exited(0), same);
    llvm::json::Object output = parseOutput(same);
    CHECK(output.getBoolean("reproduced").value_or(false));
    CHECK(output.getObject("signature"));

    for (const std::string good : {"model:edu", "qemu:edu"}) {
      if (good == "qemu:edu" && !haveQemu())
        continue;
      CAPTURE(good);
      RunResult other = runTapeback({"replay", tape, "--target", good, "--expect", "signature", "--json"});
      CHECK_MESSAGE(other.exited(1), other);
      CHECK_FALSE(parseOutput(other).getBoolean("reproduced").value_or(true));
    }
  }
}
