// Interrupts of a VFIO device, through eventfds: MSI-X, MSI or INTx.
//
// One eventfd a vector; an eventfd counts, so what came between two waits is coalesced into one result with
// its count. INTx is level-triggered: the kernel masks it when it fires, and the next wait unmasks it; if the
// device still asserts it, it fires again. Not thread-safe.
#pragma once

#include "hal/FileDescriptor.h"
#include "hal/TargetTypes.h"
#include "llvm/Support/Error.h"
#include <vector>

namespace tapeback {

enum class VfioInterruptMode : uint8_t { Auto, MsiX, Msi, IntX, None };

class VfioInterrupts {
public:
  /// Sets up every vector of the first mode that the device has (MSI-X, MSI, INTx), or of `mode`, which must
  /// be there.
  static llvm::Expected<VfioInterrupts> open(int device, VfioInterruptMode mode);

  unsigned vectors() const { return unsigned(events.size()); }
  const char *modeName() const;

  /// Waits until the vector fires, `stop` becomes readable, or the deadline passes.
  llvm::Expected<InterruptResult> wait(uint32_t vector, uint64_t deadlineNs, int stop);
  /// Enables again what a reset has taken away, and forgets what came before.
  llvm::Error rearm();

private:
  llvm::Error arm();
  int device = -1;
  uint32_t index = 0;
  VfioInterruptMode mode = VfioInterruptMode::None;
  std::vector<FileDescriptor> events;
};

} // namespace tapeback
