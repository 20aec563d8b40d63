// The replay's issue loop: packets a second from a tape in memory to null:, graded.
//
// null: answers nothing that means anything, and the tape's packets are there as a decoded stretch has them,
// so this is decoding-free and comparison-free: what issuing alone costs. The floor is the target's own
// submit(), measured beside it.
#include "replayer/Replay.h"
#include "tests/replayer/MemoryTape.h"
#include <benchmark/benchmark.h>

using namespace tapeback;
using namespace tapeback::test;

namespace {

constexpr size_t packetCount = 1 << 18;

/// Its packets have no extras, which the tapes of tests look for one by one.
class PlainTape : public MemoryTape {
public:
  llvm::Error readPackets(uint64_t first, uint64_t count, PacketBatch &batch) override {
    if (first > packets.size() || count > packets.size() - first)
      return MemoryTape::readPackets(first, count, batch);
    batch.clear();
    batch.firstOrdinal = first;
    batch.packets.assign(packets.begin() + int64_t(first), packets.begin() + int64_t(first + count));
    return llvm::Error::success();
  }
};

std::unique_ptr<MemoryTape> registerTraffic() {
  auto tape = std::make_unique<PlainTape>();
  tape->theDevices.push_back({});
  tape->theSpaces.push_back("bar0");
  tape->blockPackets = 1 << 15;
  for (size_t i = 0; i < packetCount; ++i) {
    Packet packet;
    packet.kind = i % 4 ? PacketKind::RegisterWrite : PacketKind::RegisterRead;
    packet.space = 1;
    packet.width = 4;
    packet.address = (i % 16) * 4;
    packet.value = i;
    tape->add(packet);
    if (i % 4096 == 4095)
      tape->endWindow(true);
  }
  return tape;
}

void replayToNull(benchmark::State &state) {
  auto source = llvm::cantFail(TapeSource::create(registerTraffic()));
  for (auto _ : state) {
    auto target = llvm::cantFail(openTarget("null:"));
    Target *pointer = target.get();
    ReplayReport report = llvm::cantFail(replayTape(*source, pointer, {}));
    benchmark::DoNotOptimize(report.packetsReplayed);
  }
  state.SetItemsProcessed(int64_t(state.iterations()) * int64_t(packetCount));
}

void submitToNull(benchmark::State &state) {
  auto target = llvm::cantFail(openTarget("null:"));
  std::vector<TargetOperation> operations(256);
  for (size_t i = 0; i < operations.size(); ++i) {
    operations[i].kind = i % 4 ? TargetOperation::Kind::Write : TargetOperation::Kind::Read;
    operations[i].width = 4;
    operations[i].address = (i % 16) * 4;
  }
  for (auto _ : state) {
    size_t completed = 0;
    llvm::cantFail(target->submit(operations, &completed));
    benchmark::DoNotOptimize(completed);
  }
  state.SetItemsProcessed(int64_t(state.iterations()) * int64_t(operations.size()));
}

BENCHMARK(replayToNull)->Unit(benchmark::kMillisecond);
BENCHMARK(submitToNull);

} // namespace

BENCHMARK_MAIN();
