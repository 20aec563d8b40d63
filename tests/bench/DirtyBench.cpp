// What following stored-to pages costs: for a register write with nothing new, and for each dirty MiB (the
// faults of the stores included), by kind of looking; beside it the floor, a copy of that MiB.
#include "recorder/client/DirtyPages.h"
#include "recorder/client/MemoryShadow.h"
#include <benchmark/benchmark.h>
#include <cstring>
#include <sys/mman.h>

using namespace tapeback::client;

namespace {

constexpr uint64_t page = 4096, mib = 1 << 20;

/// Memory that is followed as TrackedMemory does it.
struct Followed {
  Followed(DirtyPages::Kind kind, uint64_t size) : bytes(size) {
    memory = static_cast<uint8_t *>(
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
    there = memory != MAP_FAILED && pages.start(kind) == kind && pages.add(memory, bytes) &&
            shadow.add(0x100000, bytes, bytes);
    look();
  }
  ~Followed() {
    pages.stop();
    shadow.clear();
    munmap(memory, bytes);
  }
  /// Returns the bytes that changed.
  uint64_t look() {
    uint64_t changed = 0;
    there = there && pages.collect(memory, bytes, [&](uint8_t *at, uint64_t length) {
      for (uint64_t done = 0; done < length; done += page) {
        uint64_t iova = 0x100000 + uint64_t(at - memory) + done;
        if (shadow.knows(iova, at + done, page))
          continue;
        shadow.learn(iova, at + done, page);
        changed += page;
      }
    });
    return changed;
  }

  uint64_t bytes;
  uint8_t *memory;
  DirtyPages pages;
  MemoryShadow shadow;
  bool there;
};

DirtyPages::Kind kindOf(const benchmark::State &state) {
  return DirtyPages::Kind(state.range(0));
}

void nothingNew(benchmark::State &state) {
  Followed followed(kindOf(state), uint64_t(state.range(1)) * mib);
  if (!followed.there)
    return state.SkipWithError("skipped: this kernel cannot");
  state.SetLabel(std::string(DirtyPages::name(kindOf(state))) + ", " + std::to_string(state.range(1)) +
                 " MiB mapped");
  for (auto _ : state)
    benchmark::DoNotOptimize(followed.look());
}

void dirtyMib(benchmark::State &state) {
  Followed followed(kindOf(state), 64 * mib);
  if (!followed.there)
    return state.SkipWithError("skipped: this kernel cannot");
  state.SetLabel(std::string(DirtyPages::name(kindOf(state))) + ", 1 of 64 MiB dirty");
  uint8_t value = 0;
  uint64_t changed = 0;
  for (auto _ : state) {
    memset(followed.memory + 16 * mib, ++value, mib);
    changed += followed.look();
  }
  if (!followed.there || changed != mib * uint64_t(state.iterations()))
    state.SkipWithError("pages were missed");
}

void floorMib(benchmark::State &state) {
  std::vector<uint8_t> from(mib, 1), to(mib);
  uint8_t value = 0;
  for (auto _ : state) {
    memset(from.data(), ++value, mib);
    memcpy(to.data(), from.data(), mib);
    benchmark::ClobberMemory();
  }
  state.SetLabel("floor: store and copy 1 MiB");
}

void kinds(benchmark::internal::Benchmark *benchmark) {
  for (DirtyPages::Kind kind : {DirtyPages::Kind::Scan, DirtyPages::Kind::SoftDirty, DirtyPages::Kind::None})
    for (int64_t size : {1, 64})
      benchmark->Args({int64_t(kind), size});
}
void oneSize(benchmark::internal::Benchmark *benchmark) {
  for (DirtyPages::Kind kind : {DirtyPages::Kind::Scan, DirtyPages::Kind::SoftDirty, DirtyPages::Kind::None})
    benchmark->Args({int64_t(kind), 64});
}

BENCHMARK(floorMib);
BENCHMARK(nothingNew)->Apply(kinds);
BENCHMARK(dirtyMib)->Apply(oneSize);

} // namespace

BENCHMARK_MAIN();
