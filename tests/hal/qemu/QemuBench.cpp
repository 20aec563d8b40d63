// What driving a device of QEMU costs. JSON with --benchmark_format=json.
#include "hal/Target.h"
#include "hal/qemu/QemuTarget.h"
#include <benchmark/benchmark.h>

using namespace tapeback;

namespace {

std::unique_ptr<Target> open(benchmark::State &state) {
  llvm::Expected<std::unique_ptr<Target>> target = openTarget("qemu:edu");
  if (target)
    return std::move(*target);
  state.SkipWithError(llvm::toString(target.takeError()).c_str());
  return nullptr;
}

bool good(benchmark::State &state, llvm::Error error) {
  if (!error)
    return true;
  state.SkipWithError(llvm::toString(std::move(error)).c_str());
  return false;
}

void openAndClose(benchmark::State &state) {
  for (auto _ : state)
    if (!open(state))
      return;
}
BENCHMARK(openAndClose)->Unit(benchmark::kMillisecond)->UseRealTime();

void reset(benchmark::State &state) {
  auto target = open(state);
  for (auto _ : state)
    if (!target || !good(state, target->reset(ResetKind::Default)))
      return;
}
BENCHMARK(reset)->Unit(benchmark::kMillisecond)->UseRealTime();

void registerRead(benchmark::State &state) {
  auto target = open(state);
  for (auto _ : state)
    if (!target || !good(state, target->read(0, 0, 4).takeError()))
      return;
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(registerRead)->UseRealTime();

void postedWrite(benchmark::State &state) {
  auto target = open(state);
  for (auto _ : state)
    if (!target || !good(state, target->write(0, 4, 4, 1)))
      return;
  if (target && !good(state, target->flush()))
    return;
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(postedWrite)->UseRealTime();

/// Batches of 1,000, every fourth a read.
void batch(benchmark::State &state) {
  auto target = open(state);
  std::vector<TargetOperation> operations(1000);
  for (size_t i = 0; i < operations.size(); ++i) {
    operations[i].kind = i % 4 == 3 ? TargetOperation::Kind::Read : TargetOperation::Kind::Write;
    operations[i].address = 4;
    operations[i].width = 4;
  }
  for (auto _ : state) {
    size_t completed = 0;
    if (!target || !good(state, target->submit(operations, &completed)))
      return;
  }
  state.SetItemsProcessed(state.iterations() * int64_t(operations.size()));
}
BENCHMARK(batch)->UseRealTime();

void dma(benchmark::State &state) {
  auto target = open(state);
  if (!target)
    return;
  MapRequest request;
  request.size = 4096;
  llvm::Expected<MemoryRegion> region = target->map(request);
  if (!region) {
    good(state, region.takeError());
    return;
  }
  for (auto _ : state) {
    uint64_t values[][2] = {{0x80, region->iova}, {0x88, 0x40000}, {0x90, 4095}, {0x98, 1}};
    for (auto &[offset, value] : values)
      if (!good(state, target->write(0, offset, 8, value)))
        return;
    while (true) {
      llvm::Expected<uint64_t> command = target->read(0, 0x98, 8);
      if (!command) {
        good(state, command.takeError());
        return;
      }
      if (!(*command & 1))
        break;
      if (!good(state, target->advance(1000)))
        return;
    }
  }
}
BENCHMARK(dma)->Unit(benchmark::kMillisecond)->UseRealTime();

void advance(benchmark::State &state) {
  auto target = open(state);
  for (auto _ : state)
    if (!target || !good(state, target->advance(1000)))
      return;
}
BENCHMARK(advance)->UseRealTime();

} // namespace
