// A submission queue and its completion queue.
#pragma once

#include "hal/nvme/driver/Memory.h"
#include "hal/nvme/driver/Nvme.h"
#include <optional>

namespace tapeback::nvme {

/// One thread. Every function says with TB_OK or a tb_status what became of it.
class Queue {
public:
  static constexpr unsigned mostEntries = 64;

  /// Memory for both rings. The controller learns of them elsewhere.
  int allocate(tb_device *device, unsigned number);
  /// Empty rings of that many entries; the phases begin anew.
  int begin(unsigned entries);

  uint64_t submissions() const { return commands.iova; }
  uint64_t completions() const { return done.iova; }
  unsigned entries() const { return size; }
  unsigned number() const { return index; }
  /// Commands that were handed over and not reaped.
  unsigned outstanding() const { return submitted; }
  unsigned room() const { return size - 1 - submitted; }

  /// Puts a command into the ring and gives it a tag.
  int push(Command command, uint16_t *tag);
  /// Hands over all that was pushed.
  int ring();
  /// Waits for the next completion, whichever command's it is.
  int reap(Completion &completion);
  /// Hands the reaped completions' places back.
  int release();

private:
  tb_device *device = nullptr;
  Memory commands, done;
  unsigned index = 0, size = 0, tail = 0, head = 0, submitted = 0;
  bool phase = true, unreleased = false;
  uint16_t nextTag = 0;
};

/// How long anything may take, in device time (which jumps in simulators) and host time.
constexpr uint64_t deadlineNs = 100'000'000'000;

} // namespace tapeback::nvme
