// A workload that never says what it waits for: loops of plain register reads, as drivers have them. Its
// tapes replay on targets of other speeds only where the replay finds out by itself what was waited for.
//
//   minnow-loops [--operations N] [--seed N]
//
// Each operation copies 64 bytes to 1 KiB by one queue or both and waits for the end in one of several ways:
// STATUS, a count of completed entries, a head, an interrupt's cause; some begin with a soft reset. What was
// copied is checked. Exit codes: 0 all checks held, 1 one did not, 2 bad usage, 3 the target failed.
#include "hal/minnow/driver/Commands.h"
#include "recorder/tapeback.h"
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace {

constexpr uint64_t arenaBytes = 0x20000, fenceAt = 0x8000, inAt = 0x9000, outAt = 0xa000, step = 0x4000;
constexpr uint32_t ringEntries = 16;
constexpr unsigned mostTurns = 200'000;

class Loops {
public:
  Loops(tb_device *device, uint32_t seed) : device(device), state(seed * 2654435761u + 1) {
    must(tb_alloc(device, arenaBytes, 0, &arena, nullptr));
  }

  bool failedCheck = false;

  static void must(int status) {
    if (status >= 0)
      return;
    std::fprintf(stderr, "minnow-loops: %s\n", tb_error());
    std::exit(3);
  }

  void start() {
    for (unsigned q = 0; q < 2; ++q) {
      write(reg(q, MINNOW_Q_BASE_LO), uint32_t(arena + q * 0x1000));
      write(reg(q, MINNOW_Q_BASE_HI), uint32_t((arena + q * 0x1000) >> 32));
      write(reg(q, MINNOW_Q_SIZE), ringEntries);
      tail[q] = done[q] = 0;
    }
    write(MINNOW_IRQ_ENABLE, 3);
    write(MINNOW_CONTROL, MINNOW_CONTROL_ENABLE);
  }

  void operation() {
    must(tb_mark(device, "op"));
    if (random(8) == 0) {
      write(MINNOW_CONTROL, MINNOW_CONTROL_SOFT_RESET);
      readUntil(MINNOW_STATUS, [](uint32_t status) { return !(status & MINNOW_STATUS_RESETTING); });
      start();
    }
    bool both = random(3) == 0;
    unsigned only = random(2);
    for (unsigned q = 0; q < 2; ++q)
      if (both || q == only)
        copy(q, 64u << random(5));
    for (unsigned q = 0; q < 2; ++q)
      if (both || q == only)
        write(reg(q, MINNOW_Q_DOORBELL), tail[q]);
    waitFor(both, only);
    for (unsigned q = 0; q < 2; ++q)
      if (!expected[q].empty()) {
        int holds = tb_check_memory(device, "copied", arena + outAt + q * step, expected[q].data(),
                                    expected[q].size());
        must(holds);
        failedCheck |= !holds;
        expected[q].clear();
      }
  }

private:
  static uint64_t reg(unsigned q, uint64_t offset) { return MINNOW_QUEUE + MINNOW_QUEUE_STRIDE * q + offset; }
  void write(uint64_t offset, uint32_t value) { must(tb_write32(device, "bar0", offset, value)); }
  uint32_t random(uint32_t below) {
    state = state * 1664525 + 1013904223;
    return (state >> 16) % below;
  }

  void readUntil(uint64_t offset, const std::function<bool(uint32_t)> &met) {
    for (unsigned turn = 0; turn < mostTurns; ++turn) {
      uint32_t value = 0;
      must(tb_read32(device, "bar0", offset, &value));
      if (met(value))
        return;
    }
    must(tb_fail(device, "loop"));
    failedCheck = true;
  }

  void submit(unsigned q, const minnow_command &command) {
    must(tb_mem_write(device, arena + q * 0x1000 + 64 * tail[q], &command, 64));
    tail[q] = (tail[q] + 1) % ringEntries;
    ++done[q];
  }

  void copy(unsigned q, uint32_t bytes) {
    expected[q].resize(bytes);
    for (uint8_t &byte : expected[q])
      byte = uint8_t(random(256));
    must(tb_mem_write(device, arena + inAt + q * step, expected[q].data(), bytes));
    submit(q, minnow_dma(MINNOW_DMA_LOAD, arena + inAt + q * step, 0x4000 * q, bytes, 1, 0, 0));
    submit(q, minnow_dma(MINNOW_DMA_STORE, arena + outAt + q * step, 0x4000 * q, bytes, 1, 0, 0));
    submit(q, minnow_fence(arena + fenceAt + 8 * q, ++fences, MINNOW_INTERRUPT));
  }

  void waitFor(bool both, unsigned only) {
    switch (random(4)) {
    case 0:
      readUntil(MINNOW_STATUS, [](uint32_t status) { return (status & MINNOW_STATUS_IDLE) != 0; });
      break;
    case 1:
      for (unsigned q = 0; q < 2; ++q)
        if (both || q == only)
          readUntil(reg(q, MINNOW_Q_DONE), [&](uint32_t count) { return count == done[q]; });
      break;
    case 2:
      for (unsigned q = 0; q < 2; ++q)
        if (both || q == only)
          readUntil(reg(q, MINNOW_Q_HEAD), [&](uint32_t head) { return head == tail[q]; });
      break;
    default: {
      uint32_t bits = both ? 3 : only ? MINNOW_IRQ_FENCE1 : MINNOW_IRQ_FENCE0;
      readUntil(MINNOW_IRQ_STATUS, [&](uint32_t status) { return (status & bits) == bits; });
    }
    }
    write(MINNOW_IRQ_STATUS, 3);
  }

  tb_device *device;
  uint32_t state;
  uint64_t arena = 0, fences = 0;
  uint32_t tail[2] = {}, done[2] = {}; ///< done: since the reset.
  std::vector<uint8_t> expected[2];
};

int usage() {
  std::fprintf(stderr, "usage: minnow-loops [--operations N] [--seed N]\n");
  return 2;
}

} // namespace

int main(int argc, char **argv) {
  unsigned operations = 40;
  uint32_t seed = 1;
  for (int i = 1; i < argc; i += 2) {
    std::string key = argv[i];
    if (i + 1 >= argc)
      return usage();
    char *end = nullptr;
    unsigned long value = std::strtoul(argv[i + 1], &end, 0);
    if (*end || value > 1'000'000)
      return usage();
    if (key == "--operations")
      operations = unsigned(value);
    else if (key == "--seed")
      seed = uint32_t(value);
    else
      return usage();
  }
  tb_device *device = nullptr;
  Loops::must(tb_open(nullptr, &device));
  Loops loops(device, seed);
  loops.start();
  for (unsigned i = 0; i < operations; ++i)
    loops.operation();
  Loops::must(tb_close(device));
  return loops.failedCheck ? 1 : 0;
}
