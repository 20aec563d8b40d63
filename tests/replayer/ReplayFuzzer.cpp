// Fuzzes replay, bisect and diff with tapes of anybody's making: no crash, no hang, no memory that the tape
// asks for, and grades that add up.
#include "replayer/Replay.h"
#include "replayer/bisect/Bisect.h"
#include "replayer/diff/TapeDiff.h"
#include "tests/replayer/RandomTape.h"
#include "tests/replayer/ScriptedTarget.h"
#include <cstdlib>

using namespace tapeback;
using namespace tapeback::test;

static PlayerOptions boundedOptions() {
  PlayerOptions options;
  options.waits.maxDeadline = 20'000;
  options.waits.defaultDeadline = 20'000;
  options.waits.maxHostTime = 1'000'000;
  options.binding.maxMappedBytes = 1 << 20;
  options.maxContentBytes = 1 << 20;
  return options;
}

/// Two tapes of what the bytes make; with `same` the first one twice.
static void compareTapes(llvm::ArrayRef<uint8_t> bytes, bool same) {
  size_t cut = same ? bytes.size() : bytes.size() / 2;
  std::unique_ptr<MemoryTape> a = tapeFromBytes(bytes.take_front(cut));
  std::unique_ptr<MemoryTape> b = same ? a->copy() : tapeFromBytes(bytes.drop_front(cut));
  llvm::Expected<std::unique_ptr<TapeSource>> left = TapeSource::create(std::move(a));
  llvm::Expected<std::unique_ptr<TapeSource>> right = TapeSource::create(std::move(b));
  if (!left || !right) {
    llvm::consumeError(left.takeError());
    llvm::consumeError(right.takeError());
    return;
  }
  DiffOptions options;
  options.keptDifferences = 4;
  options.pieceItems = 64;
  llvm::Expected<DiffReport> report = diffTapes(std::move(*left), std::move(*right), options);
  if (!report) {
    llvm::consumeError(report.takeError());
    return;
  }
  bool adds = report->exact <= report->aligned && report->differences.size() <= 4 &&
              (report->total() != 0) == (report->verdict == Verdict::Divergence) &&
              report->first.has_value() == (report->total() != 0);
  if (!adds || (same && report->verdict == Verdict::Divergence))
    std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2)
    return 0;
  uint8_t mode = data[0];
  if ((mode & 0x4c) == 0x4c) { // A bisection of targets that do not answer would be an idle one.
    compareTapes(llvm::ArrayRef<uint8_t>(data + 1, size - 1), mode & 1);
    return 0;
  }
  std::unique_ptr<MemoryTape> tape = tapeFromBytes(llvm::ArrayRef<uint8_t>(data + 1, size - 1));
  uint64_t packets = tape->packets.size();
  llvm::Expected<std::unique_ptr<TapeSource>> source = TapeSource::create(std::move(tape));
  if (!source) {
    llvm::consumeError(source.takeError());
    return 0;
  }
  ToyOptions toy;
  toy.capabilities.peek = mode & 1;
  toy.capabilities.interrupts = mode & 2;
  toy.capabilities.answers = (mode & 0x0c) != 0x0c;
  toy.capabilities.counters = mode & 0x10;
  if (mode & 0x20)
    toy.faults.wrongOffsets = {toy::scratch, toy::status, toy::command};
  if (mode & 0x40) {
    auto endpoint = [&](ToyOptions options) {
      return [options]() -> llvm::Expected<TargetSet> {
        TargetSet set;
        set.owned.push_back(std::make_unique<ScriptedTarget>(options));
        set.targets.push_back(set.owned.back().get());
        return set;
      };
    };
    BisectOptions options;
    options.player = boundedOptions();
    options.probe.waits = options.player.waits;
    options.deep = mode & 0x80;
    options.maxProbes = 8;
    options.maxPrefixPackets = 256;
    ToyOptions good = toy;
    good.faults = {};
    llvm::Expected<BisectReport> report = bisectTape(**source, {endpoint(good), endpoint(toy)}, options);
    if (!report)
      llvm::consumeError(report.takeError());
    return 0;
  }
  ScriptedTarget target(toy);
  Target *pointer = &target;
  ReplayOptions options;
  options.player = boundedOptions();
  options.fromReset = true;
  options.stopAtDivergence = mode & 0x80;
  llvm::Expected<ReplayReport> report = replayTape(**source, pointer, options);
  if (!report) {
    llvm::consumeError(report.takeError());
    return 0;
  }
  bool adds =
      report->packets == packets && report->grades.total() == packets && report->packetsReplayed <= packets;
  bool honest = report->verdict != Verdict::Match ||
                report->grades.of(Grade::Exact) + report->grades.of(Grade::Tolerated) == packets;
  if (!adds || !honest)
    std::abort();
  return 0;
}
