// What minnow-stress does: programs for Minnow that a seed decides, legal by the manual, with one result.
//
// A program is a sequence of rounds. In a round the host fills memory, submits commands to one queue or both,
// waits in one of several ways, and checks. Within a round the two queues run side by side, and share data in
// scratchpad and host memory only where SIGNAL/WAIT or BARRIER order them; so every implementation, at every
// speed, gives the same bytes, errors and exact counters, and the plan knows them (Evaluation). Registers are
// read only when they can have but one value.
//
// Deterministic in the options alone, on every machine. Pure: no device, no clock, no files.
#pragma once

#include "hal/minnow/driver/Evaluate.h"
#include <memory>
#include <string>

namespace tapeback::stress {

/// Bytes of host memory a program uses, in one allocation, zero at first.
constexpr uint32_t arenaBytes = 256 * 1024;

struct StressOptions {
  uint64_t seed = 1;
  uint64_t commands = 200; ///< How many are submitted, roughly: the last round is completed.
  uint64_t arena =
      0; ///< Device address of the allocation, a multiple of 4096. What lies behind it is not mapped.
  bool errors = true; ///< Commands that fail, and RESUME.
  bool resets = true; ///< SOFT_RESET, also of a device at work.
  /// Legal, but nobody who watches from outside can follow: chains that store into their own later
  /// descriptors, writes of BASE and SIZE that a busy queue ignores, DBG_DATA while it is closed, and ENABLE
  /// cleared while commands run (what they move is then not counted).
  bool exotic = false;
};

/// One thing the host does. Programs over the C API and tests over Target execute these and nothing else.
struct StressStep {
  enum class Kind : uint8_t {
    Mark,           ///< A round begins; `name` says which sort.
    Write,          ///< Register `offset` := value.
    Read,           ///< Register `offset` must read `value`.
    Poll,           ///< Until (register `offset` & mask) == value.
    Fill,           ///< Store `bytes` at `memory` in the arena (data, descriptors, commands).
    FillApi,        ///< The same, through the API where there is one.
    AwaitMemory,    ///< Until the 8 bytes at `memory` are `value`.
    AwaitInterrupt, ///< At least one message has been sent since the last wait.
    CheckMemory,    ///< `bytes` must be at `memory`.
    Reset,          ///< From outside: tb_reset.
    Quiet,          ///< Nothing is going on: all state may be compared. See below.
  } kind = Kind::Mark;
  const char *name = ""; ///< Of a round or a check.
  uint32_t offset = 0;
  uint64_t value = 0, mask = 0;
  uint32_t memory = 0;
  std::vector<uint8_t> bytes = {};
  /// Quiet: what must be there.
  uint64_t scratchpadDigest = 0, memoryDigest = 0;
  Exact exact = {};
};

/// FNV-1a over 64-bit words; `size` is a multiple of 8.
uint64_t digestOf(const uint8_t *data, size_t size);

class StressPlan {
public:
  explicit StressPlan(const StressOptions &options);
  ~StressPlan();
  StressPlan(const StressPlan &) = delete;
  StressPlan &operator=(const StressPlan &) = delete;

  /// The next round's steps, or none when all commands have been submitted.
  std::vector<StressStep> next();
  /// Commands submitted by now.
  uint64_t submitted() const;
  /// What scratchpad and memory hold after the last round: for saying where a digest differs.
  const Evaluation &evaluation() const;

private:
  class Planner;
  std::unique_ptr<Planner> planner;
};

/// "GEMM", "FENCE" …; "?" for an opcode there is not.
const char *opcodeName(uint8_t opcode);
/// One line, for messages.
std::string describe(const minnow_command &command);

} // namespace tapeback::stress
