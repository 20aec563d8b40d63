// Everything that decides Minnow's future, host memory excepted: one flat structure, so that a snapshot is a
// copy of it.
#pragma once

#include "hal/minnow/model/Command.h"
#include "hal/minnow/model/Scratchpad.h"
#include <cstdint>
#include <type_traits>

namespace minnow {

constexpr unsigned queueCount = 2, semaphoreCount = 8, counterCount = 12;
constexpr uint64_t nsPerCycle = 10;

/// Changes with every change to State: a snapshot of another build is refused.
constexpr uint64_t stateVersion = 0x4d4e570000000001;

enum class Phase : uint32_t {
  Idle,     ///< Nothing begun.
  Fetching, ///< The command at HEAD is being read. It is not running: it may still be given up.
  Running,  ///< A step of the command ends in `remaining` nanoseconds.
  Blocked,  ///< In WAIT or BARRIER.
};

/// What the running step of a DMA command moves.
enum class DmaStage : uint32_t { Row, Descriptor };

struct QueueState {
  uint64_t base;
  uint64_t remaining; ///< Nanoseconds until the phase's step ends; Fetching and Running only, never 0 between
                      ///< calls.
  uint32_t size, head, tail, done;
  Phase phase;
  Command command; ///< Meaningful while Running or Blocked; it was checked.
  // Of a DMA command.
  DmaStage stage;
  uint32_t row;         ///< Of `job`, the one being moved.
  DmaJob job;           ///< Meaningful in stage Row; it was checked.
  uint64_t descriptor;  ///< Address of the descriptor that is read or carried out.
  uint64_t next;        ///< What it says of the next one.
  uint32_t descriptors; ///< How many this chain has read.
  uint32_t last;        ///< Whether the one carried out is the last.
};

/// ERR_*, all zero if there is no error.
struct ErrorState {
  uint32_t code, queue, index, opcode;
  uint64_t address;
};

struct State {
  uint64_t version;
  uint64_t now;            ///< Nanoseconds of device time. Wraps.
  uint64_t resetRemaining; ///< Nanoseconds until a soft reset is done; 0: none under way.
  uint64_t partOfCycle;    ///< Nanoseconds since the last whole core cycle.
  uint64_t jitter;         ///< State of the generator, if option `jitter` asks for one.
  uint64_t counters[counterCount], snapshot[counterCount];
  QueueState queues[queueCount];
  ErrorState error;
  uint32_t enabled;
  uint32_t halting; ///< A command failed, RESUME has not come.
  uint32_t halted;  ///< … and the other queue has come to rest: STATUS.HALTED.
  uint32_t irqStatus, irqEnable;
  uint32_t debugAddress;
  uint32_t timeHigh;
  uint32_t freeze;
  uint8_t semaphores[semaphoreCount];
  uint8_t scratchpad[scratchpadBytes];
};
static_assert(std::is_trivially_copyable_v<State>);

} // namespace minnow
