// The issue loop allocates nothing: counted where memory comes from, malloc. Not under sanitizers, whose it
// is.
#include "tests/replayer/ReplayHarness.h"
#include <atomic>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TAPEBACK_NO_MALLOC_COUNT
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define TAPEBACK_NO_MALLOC_COUNT
#endif
#endif

#ifndef TAPEBACK_NO_MALLOC_COUNT

static std::atomic<uint64_t> allocations;

// glibc's own, under the names by which it offers them to who replaces malloc.
extern "C" {
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *malloc(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}
void *calloc(size_t count, size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, size);
}
void *realloc(void *old, size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(old, size);
}
}

using namespace tapeback;
using namespace tapeback::test;

namespace {

/// Register accesses and contents, in windows.
std::unique_ptr<MemoryTape> traffic(size_t packets) {
  ToyProgram program;
  program.open();
  program.map(toyMemory, toyMemorySize);
  std::unique_ptr<MemoryTape> tape = program.finish();
  BlobId content[2] = {tape->store(std::vector<uint8_t>(256, 1)), tape->store(std::vector<uint8_t>(256, 2))};
  for (size_t i = 0; i < packets; ++i) {
    Packet packet;
    PacketExtra extra;
    packet.issueTime = packet.completeTime = 1'000'000 + i;
    if (i % 16 == 15) {
      packet.kind = PacketKind::MemoryWrite;
      packet.address = toyMemory + (i % 8) * 256;
      extra.length = 256;
      extra.payload = content[i / 16 % 2];
    } else {
      packet.kind = i % 4 ? PacketKind::RegisterWrite : PacketKind::RegisterRead;
      packet.space = 1;
      packet.width = 4;
      packet.address = toy::scratch;
      packet.value = i % 4 ? i : i ? i - 1 : 0;
      if (i % 16 == 0 && i)
        packet.value = i - 2; // The MemoryWrite came between.
    }
    tape->add(packet, extra);
    if (i % 512 == 511)
      tape->endWindow(true);
  }
  tape->endWindow(true);
  return tape;
}

} // namespace

TEST_CASE("malloc is counted") {
  uint64_t before = allocations;
  std::vector<int> some(1000);
  CHECK(allocations > before);
  before = allocations;
  free(malloc(some.size()));
  CHECK(allocations == before + 1);
}

TEST_CASE("From the first packets to the last nothing is allocated") {
  std::unique_ptr<MemoryTape> tape = traffic(16'000); // One stretch.
  for (const char *timing : {"fast", "scale=0"}) {
    CAPTURE(timing);
    auto source = llvm::cantFail(TapeSource::create(tape->copy()));
    ScriptedTarget toy;
    auto null = llvm::cantFail(openTarget("null:"));
    for (Target *target : {static_cast<Target *>(&toy), null.get()}) {
      std::vector<uint64_t> counts;
      counts.reserve(1000);
      ReplayOptions options = quickOptions();
      options.player.pacing = llvm::cantFail(parsePacing(timing));
      options.progress = [&](uint64_t) {
        if (counts.size() < counts.capacity())
          counts.push_back(allocations);
      };
      ReplayReport report = llvm::cantFail(replayTape(*source, target, options));
      CHECK(report.packetsReplayed == tape->packets.size());
      CHECK(report.verdict == (target == &toy ? Verdict::Match : Verdict::Incomplete));
      REQUIRE(counts.size() > 30);
      // The first chunks make room: window digests, the toy's map of registers.
      CHECK(counts.back() == counts[2]);
    }
  }
}

#endif
