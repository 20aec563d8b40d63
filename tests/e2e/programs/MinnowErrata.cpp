// A workload in which a given erratum of rtl:minnow acts in one known operation and shows, where it can wait,
// hundreds of operations later: the place that bisect must find is known without asking any tool.
//
//   minnow-errata ERRATUM [--hit N] [--late N] [--seed N]
//
// Each operation begins with the marker "op" (occurrence N is operation N, from 1). Operation `hit` is made
// so that the erratum acts in it; what it left behind is looked at in operation `hit` + `late` (errata that
// hang, halt or reorder show in `hit` itself). All other operations load, store and check 64 bytes in ways
// that no erratum touches. Exit codes: 0 all checks held, 1 one did not, 2 bad usage, 3 the target failed.
#include "hal/minnow/driver/Commands.h"
#include "recorder/tapeback.h"
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr uint64_t arenaBytes = 0x40000, ringAt = 0, fenceAt = 0x8000, inAt = 0x9000, outAt = 0xa000,
                   dataAt = 0x10000;
constexpr uint32_t ringEntries = 8;
/// Long enough for everything here, and soon over where a queue hangs.
constexpr uint64_t deadline = 2'000'000;

class Run {
public:
  explicit Run(tb_device *device) : device(device) {}

  bool failedCheck = false;
  bool hangs = false; ///< A fence did not come: there is nothing more to be done with the device.

  static void must(int status) {
    if (status >= 0)
      return;
    std::fprintf(stderr, "minnow-errata: %s\n", tb_error());
    std::exit(3);
  }

  void write(uint64_t offset, uint32_t value) { must(tb_write32(device, "bar0", offset, value)); }
  uint32_t read(uint64_t offset) {
    uint32_t value = 0;
    must(tb_read32(device, "bar0", offset, &value));
    return value;
  }
  static uint64_t reg(unsigned q, uint64_t offset) { return MINNOW_QUEUE + MINNOW_QUEUE_STRIDE * q + offset; }

  void open() { must(tb_alloc(device, arenaBytes, 0, &arena, nullptr)); }
  void start() {
    for (unsigned q = 0; q < 2; ++q) {
      write(reg(q, MINNOW_Q_BASE_LO), uint32_t(arena + ringAt + q * 0x1000));
      write(reg(q, MINNOW_Q_BASE_HI), 0);
      write(reg(q, MINNOW_Q_SIZE), ringEntries);
      tail[q] = 0;
    }
    write(MINNOW_CONTROL, MINNOW_CONTROL_ENABLE);
  }
  void softReset() {
    write(MINNOW_CONTROL, MINNOW_CONTROL_SOFT_RESET);
    must(tb_poll(device, "bar0", MINNOW_STATUS, 4, MINNOW_STATUS_RESETTING, 0, deadline, nullptr));
  }

  void put(uint64_t at, const std::vector<uint8_t> &bytes) {
    must(tb_mem_write(device, arena + at, bytes.data(), bytes.size()));
  }
  void submit(unsigned q, const std::vector<minnow_command> &commands) {
    for (const minnow_command &command : commands) {
      must(tb_mem_write(device, arena + ringAt + q * 0x1000 + 64 * tail[q], &command, 64));
      tail[q] = (tail[q] + 1) % ringEntries;
    }
    write(reg(q, MINNOW_Q_DOORBELL), tail[q]);
  }
  minnow_command fence(unsigned q) { return minnow_fence(arena + fenceAt + 8 * q, ++fences[q], 0); }
  /// Waits for the last fence of the queue.
  void wait(unsigned q) {
    int status = tb_wait_mem(device, arena + fenceAt + 8 * q, 8, ~uint64_t(0), fences[q], deadline, nullptr);
    if (status == TB_E_TIMEOUT) {
      hangs = failedCheck = true;
      must(tb_fail(device, "fence"));
      return;
    }
    must(status);
  }
  void run(unsigned q, std::vector<minnow_command> commands) {
    commands.push_back(fence(q));
    submit(q, commands);
    wait(q);
  }
  void check(const char *name, uint64_t at, const std::vector<uint8_t> &expected) {
    if (hangs)
      return;
    int holds = tb_check_memory(device, name, arena + at, expected.data(), expected.size());
    must(holds);
    failedCheck |= !holds;
  }
  void checkRegister(const char *name, uint64_t offset, uint32_t expected) {
    int holds = tb_check_equal(device, name, expected, read(offset));
    must(holds);
    failedCheck |= !holds;
  }
  uint64_t address(uint64_t at) const { return arena + at; }
  void mark() { must(tb_mark(device, "op")); }

  uint32_t tail[2] = {}; ///< Of each ring.

private:
  tb_device *device;
  uint64_t arena = 0;
  uint64_t fences[2] = {};
};

std::vector<uint8_t> pattern(size_t size, uint32_t seed) {
  std::vector<uint8_t> bytes(size);
  for (uint8_t &byte : bytes)
    byte = uint8_t((seed = seed * 1664525 + 1013904223) >> 24);
  return bytes;
}

/// What every erratum leaves alone: 64 bytes from a page's start, in and out again, one queue at work.
void harmless(Run &run, unsigned q, uint32_t seed) {
  std::vector<uint8_t> bytes = pattern(64, seed);
  run.put(inAt, bytes);
  run.run(q, {minnow_dma(MINNOW_DMA_LOAD, run.address(inAt), 0x100 + 0x40 * (seed % 16), 64, 1, 0, 0),
              minnow_dma(MINNOW_DMA_STORE, run.address(outAt), 0x100 + 0x40 * (seed % 16), 64, 1, 0, 0)});
  run.check("harmless", outAt, bytes);
}

/// Stores `expected` from scratchpad 0x8000, where the operation that was hit has left it.
void show(Run &run, const std::vector<uint8_t> &expected) {
  run.run(0, {minnow_dma(MINNOW_DMA_STORE, run.address(outAt), 0x8000, uint32_t(expected.size()), 1, 0, 0)});
  run.check("late", outAt, expected);
}

struct Erratum {
  const char *name;
  bool canWait; ///< What it does shows only when it is looked at.
  void (*hit)(Run &run, uint32_t seed);
  void (*show)(Run &run, uint32_t seed); ///< Null: nothing to be looked at.
};

// dma-4k-last-beat: the second burst of the row crosses a page.
void hitPage(Run &run, uint32_t seed) {
  run.put(dataAt - 88, pattern(128, seed));
  run.run(0, {minnow_dma(MINNOW_DMA_LOAD, run.address(dataAt - 88), 0x8000, 128, 1, 0, 0)});
}
void showPage(Run &run, uint32_t seed) {
  show(run, pattern(128, seed));
}

// requant-wrap: 255 / 2 rounds from 127 up to 128.
void hitRequant(Run &run, uint32_t seed) {
  std::vector<uint8_t> words(64 * 4);
  for (unsigned i = 0; i < 64; ++i)
    words[4 * i] = uint8_t(i == seed % 64 ? 255 : 2 * i);
  run.put(dataAt, words);
  run.run(0, {minnow_dma(MINNOW_DMA_LOAD, run.address(dataAt), 0x9000, 256, 1, 0, 0),
              minnow_requant(0x9000, 0x8000, 1, 64, 0, 0, 1, 1, 0, 0)});
}
void showRequant(Run &run, uint32_t seed) {
  std::vector<uint8_t> expected(64);
  for (unsigned i = 0; i < 64; ++i)
    expected[i] = uint8_t(i == seed % 64 ? 127 : i);
  show(run, expected);
}

// stale-scratchpad: the last word of a load, used at once. Three loads, so that the old word is there and the
// copy is of another line.
void hitStale(Run &run, uint32_t seed) {
  run.put(dataAt, pattern(128, seed));
  run.put(dataAt + 0x1000, pattern(128, ~seed));
  run.run(0, {minnow_dma(MINNOW_DMA_LOAD, run.address(dataAt + 0x1000), 0x9000, 128, 1, 0, 0),
              minnow_dma(MINNOW_DMA_LOAD, run.address(dataAt + 0x2000), 0xa000, 128, 1, 0, 0),
              minnow_dma(MINNOW_DMA_LOAD, run.address(dataAt), 0x9000, 128, 1, 0, 0),
              minnow_vadd(MINNOW_VADD8, 0x9000, 0xa000, 0x8000, 1, 128, 0, 0, 0, 0)});
}
void showStale(Run &run, uint32_t seed) {
  show(run, pattern(128, seed));
}

// counter-stall: a load while the array works for the other queue.
void hitCounter(Run &run, uint32_t) {
  run.submit(0, {minnow_gemm(0xa000, 0xb000, 0xc000, 64, 64, 64, 64, 64, 256, 0),
                 minnow_gemm(0xa000, 0xb000, 0xc000, 64, 64, 64, 64, 64, 256, 0), run.fence(0)});
  run.submit(1,
             {minnow_dma(MINNOW_DMA_LOAD, run.address(dataAt), 0x4000, 4096, 4, 4096, 4096),
              minnow_dma(MINNOW_DMA_LOAD, run.address(dataAt), 0x4000, 4096, 4, 4096, 4096), run.fence(1)});
  run.wait(0);
  run.wait(1);
}
uint64_t bytesLoaded; ///< By everything else, 64 an operation.
void showCounter(Run &run, uint32_t) {
  // The fence is written before its command counts; a snapshot of a device that is done shows all.
  run.write(MINNOW_CNT_CONTROL, MINNOW_CNT_SNAPSHOT);
  run.checkRegister("READ_BYTES", MINNOW_CNT_LO + 8 * MINNOW_CNT_READ_BYTES,
                    uint32_t(bytesLoaded + 8 * 4096));
}

// fence-overtake: decided by jitter; every operation looks at once at what it stored.
void hitFence(Run &run, uint32_t seed) {
  for (unsigned i = 0; i < 64 && !run.failedCheck; ++i) {
    std::vector<uint8_t> bytes = pattern(128, seed + i);
    run.put(dataAt, bytes);
    run.run(0, {minnow_dma(MINNOW_DMA_LOAD, run.address(dataAt), 0x9000, 128, 1, 0, 0),
                minnow_dma(MINNOW_DMA_STORE, run.address(dataAt + 0x1000), 0x9000, 128, 1, 0, 0)});
    run.check("stored", dataAt + 0x1000, bytes);
  }
}

// wrap-full-hang: queue 0 passes its ring's end while queue 1 is full, waiting at its first command.
void hitWrap(Run &run, uint32_t) {
  std::vector<minnow_command> full(ringEntries - 1, minnow_nop());
  full.front() = minnow_wait(0);
  full.back() = run.fence(1);
  run.submit(1, full);
  std::vector<minnow_command> toTheEnd(ringEntries - 1 - run.tail[0], minnow_nop());
  if (!toTheEnd.empty()) {
    toTheEnd.back() = run.fence(0);
    run.submit(0, toTheEnd);
    run.wait(0);
  }
  run.submit(0, {minnow_nop(), minnow_nop(), minnow_signal(0), run.fence(0)});
  run.wait(0);
  if (!run.hangs)
    run.wait(1);
}

// chain-prefetch: behind the last descriptor, where the manual says that nobody looks.
void hitChain(Run &run, uint32_t seed) {
  minnow_descriptor last = minnow_make_descriptor(run.address(dataAt + 0x1000), 0x9000, 64, 1, 0, 0,
                                                  MINNOW_DESCRIPTOR_LAST, 0xdead0000);
  const uint8_t *bytes = reinterpret_cast<const uint8_t *>(&last);
  run.put(dataAt, std::vector<uint8_t>(bytes, bytes + 64));
  run.put(dataAt + 0x1000, pattern(64, seed));
  run.run(0, {minnow_dma_chain(run.address(dataAt))});
}

// reset-head: a soft reset while queue 1's HEAD is not 0; then queue 1 rests.
void hitReset(Run &run, uint32_t) {
  std::vector<minnow_command> commands((run.tail[1] + 2) % ringEntries ? 1 : 2, minnow_nop());
  run.run(1, commands);
  run.softReset();
  run.start();
}
void showReset(Run &run, uint32_t seed) {
  harmless(run, 1, seed);
}

const Erratum errata[] = {
    {"dma-4k-last-beat", true, hitPage, showPage},   {"requant-wrap", true, hitRequant, showRequant},
    {"stale-scratchpad", true, hitStale, showStale}, {"counter-stall", true, hitCounter, showCounter},
    {"reset-head", true, hitReset, showReset},       {"fence-overtake", false, hitFence, nullptr},
    {"wrap-full-hang", false, hitWrap, nullptr},     {"chain-prefetch", false, hitChain, nullptr},
};

int usage() {
  std::fprintf(stderr, "usage: minnow-errata ERRATUM [--hit N] [--late N] [--seed N]\nerrata:");
  for (const Erratum &erratum : errata)
    std::fprintf(stderr, " %s", erratum.name);
  std::fprintf(stderr, "\n");
  return 2;
}

} // namespace

int main(int argc, char **argv) {
  const Erratum *erratum = nullptr;
  uint32_t hit = 5, late = 150, seed = 1;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    uint32_t *number = word == "--hit" ? &hit : word == "--late" ? &late : word == "--seed" ? &seed : nullptr;
    if (number) {
      if (++i == argc)
        return usage();
      *number = uint32_t(std::strtoul(argv[i], nullptr, 10));
      continue;
    }
    for (const Erratum &known : errata)
      if (word == known.name)
        erratum = &known;
    if (!erratum)
      return usage();
  }
  if (!erratum || !hit || !late)
    return usage();
  tb_device *device = nullptr;
  Run::must(tb_open(nullptr, &device));
  Run run(device);
  run.open();
  run.start();
  for (uint32_t op = 1; op <= hit + late && !run.hangs; ++op) {
    run.mark();
    uint32_t random = op * 2654435761u + seed;
    bool rests = erratum->hit == hitReset && op > hit; // Queue 1, which might show it.
    if (op == hit) {
      erratum->hit(run, seed);
    } else if (op == hit + late && erratum->show) {
      erratum->show(run, seed);
    } else {
      harmless(run, rests ? 0 : op & 1, random);
      bytesLoaded += 64;
    }
  }
  Run::must(tb_close(device));
  return run.failedCheck ? 1 : 0;
}
