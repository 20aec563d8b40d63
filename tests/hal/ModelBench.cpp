// What crossing the process boundary costs: register accesses, batches, opening, snapshots. null: is the
// floor.
#include "format/Failure.h"
#include "hal/Target.h"
#include <benchmark/benchmark.h>

using namespace tapeback;

namespace {

/// The value, or the benchmark ends with what went wrong.
template <typename T>
std::optional<T> need(benchmark::State &state, llvm::Expected<T> value) {
  if (value)
    return std::move(*value);
  state.SkipWithError(toFailure(value.takeError()).message.c_str());
  return std::nullopt;
}

bool need(benchmark::State &state, llvm::Error error) {
  if (!error)
    return true;
  state.SkipWithError(toFailure(std::move(error)).message.c_str());
  return false;
}

void readOneByOne(benchmark::State &state, const char *uri) {
  auto target = need(state, openTarget(uri));
  while (target && state.KeepRunning()) {
    auto value = need(state, (*target)->read(0, 4, 4));
    if (!value)
      return;
    benchmark::DoNotOptimize(*value);
  }
  state.SetItemsProcessed(state.iterations());
}

void readBatched(benchmark::State &state, const char *uri) {
  auto target = need(state, openTarget(uri));
  std::vector<TargetOperation> batch(size_t(state.range(0)));
  for (TargetOperation &operation : batch) {
    operation.width = 4;
    operation.address = 4;
  }
  size_t completed = 0;
  while (target && state.KeepRunning())
    if (!need(state, (*target)->submit(batch, &completed)))
      return;
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void openAndClose(benchmark::State &state, const char *uri) {
  while (state.KeepRunning())
    if (!need(state, openTarget(uri)))
      return;
}

void saveAndRestore(benchmark::State &state, const char *uri) {
  auto target = need(state, openTarget(uri));
  if (!target)
    return;
  MapRequest request;
  request.size = uint64_t(state.range(0));
  auto region = need(state, (*target)->map(request));
  if (!region || !need(state, (*target)->writeMemory(region->iova, std::vector<uint8_t>(region->size, 1))))
    return;
  while (state.KeepRunning()) {
    auto id = need(state, (*target)->snapshot());
    if (!id || !need(state, (*target)->restore(*id)) || !need(state, (*target)->releaseSnapshot(*id)))
      return;
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

} // namespace

BENCHMARK_CAPTURE(readOneByOne, null, "null:");
BENCHMARK_CAPTURE(readOneByOne, model, "model:edu")->UseRealTime();
BENCHMARK_CAPTURE(readBatched, null, "null:")->Arg(1024);
BENCHMARK_CAPTURE(readBatched, model, "model:edu")->Arg(16)->Arg(1024)->UseRealTime();
BENCHMARK_CAPTURE(openAndClose, model, "model:edu")->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(saveAndRestore, model, "model:edu")->Arg(4096)->Arg(1 << 20)->UseRealTime();
