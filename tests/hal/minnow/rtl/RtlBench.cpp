// How fast the RTL is simulated: cycles a second, and what a register access costs through the host process.
#include "hal/Target.h"
#include "hal/minnow/driver/Commands.h"
#include <benchmark/benchmark.h>
#include <cstring>

using namespace tapeback;

namespace {

constexpr uint64_t base = 0x1000000;

std::unique_ptr<Target> openDevice(benchmark::State &state, MemoryRegion &memory) {
  llvm::Expected<std::unique_ptr<Target>> target = openTarget("rtl:minnow");
  if (!target) {
    state.SkipWithError(toString(target.takeError()).c_str());
    return nullptr;
  }
  MapRequest request;
  request.size = 1 << 20;
  request.iova = base;
  llvm::Expected<MemoryRegion> region = (*target)->map(request);
  if (!region) {
    state.SkipWithError(toString(region.takeError()).c_str());
    return nullptr;
  }
  memory = *region;
  return std::move(*target);
}

/// Runs the command 32 times per iteration; reports cycles and `work` of the counter a second.
void runCommand(benchmark::State &state, const minnow_command &command, uint32_t counter, const char *unit) {
  MemoryRegion memory;
  std::unique_ptr<Target> target = openDevice(state, memory);
  if (!target)
    return;
  auto write = [&](uint64_t offset, uint32_t value) { cantFail(target->write(0, offset, 4, value)); };
  write(MINNOW_QUEUE + MINNOW_Q_BASE_LO, uint32_t(base));
  write(MINNOW_QUEUE + MINNOW_Q_SIZE, 64);
  write(MINNOW_CONTROL, MINNOW_CONTROL_ENABLE);
  for (int i = 0; i < 64; ++i)
    std::memcpy(memory.host + 64 * i, &command, 64);
  uint64_t start = cantFail(target->deviceTime()), work = cantFail(target->counter(counter));
  uint32_t tail = 0;
  for (auto _ : state) {
    tail = (tail + 32) % 64;
    write(MINNOW_QUEUE + MINNOW_Q_DOORBELL, tail);
    cantFail(target->advance(1000000000));
  }
  uint64_t cycles = (cantFail(target->deviceTime()) - start) / 10;
  work = cantFail(target->counter(counter)) - work;
  state.counters["cycles/s"] = benchmark::Counter(double(cycles), benchmark::Counter::kIsRate);
  state.counters[unit] = double(work) / double(cycles);
}

void gemm(benchmark::State &state) {
  runCommand(state, minnow_gemm(0, 0x4000, 0x8000, 64, 64, 64, 64, 64, 256, 0), MINNOW_CNT_MACS,
             "MACs/cycle");
}
void dmaLoad(benchmark::State &state) {
  runCommand(state, minnow_dma(MINNOW_DMA_LOAD, base + 0x10000, 0, 4096, 4, 4096, 4096),
             MINNOW_CNT_READ_BYTES, "bytes/cycle");
}
void dmaStore(benchmark::State &state) {
  runCommand(state, minnow_dma(MINNOW_DMA_STORE, base + 0x10000, 0, 4096, 4, 4096, 4096),
             MINNOW_CNT_WRITE_BYTES, "bytes/cycle");
}
void requant(benchmark::State &state) {
  runCommand(state, minnow_requant(0, 0x8000, 64, 64, 256, 64, 3, 7, 1, 0), MINNOW_CNT_COMMANDS,
             "commands/cycle");
}
void registerRead(benchmark::State &state) {
  MemoryRegion memory;
  std::unique_ptr<Target> target = openDevice(state, memory);
  if (!target)
    return;
  for (auto _ : state)
    benchmark::DoNotOptimize(cantFail(target->read(0, MINNOW_STATUS, 4)));
}

BENCHMARK(gemm)->UseRealTime();
BENCHMARK(dmaLoad)->UseRealTime();
BENCHMARK(dmaStore)->UseRealTime();
BENCHMARK(requant)->UseRealTime();
BENCHMARK(registerRead)->UseRealTime();

} // namespace
