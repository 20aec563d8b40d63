// The guest's clock, read and moved through the HPET (IA-PC HPET Specification 1.0a, section 2.3).
//
// With -icount shift=0,sleep=off and the CPU parked, QEMU's virtual clock stands still until some device arms
// a timer, and then jumps to it at once. So it is moved by arming a timer: the HPET's first comparator, its
// interrupt off. Everything due before then has happened when the counter shows the new time. With time=real
// the same counter follows the host's clock and can only be read.
#pragma once

#include "hal/qemu/QtestClient.h"

namespace tapeback {

/// Made anew for each QEMU process; does not own the client. Threads: one. Errors: the client's, and
/// "no-clock".
class VirtualClock {
public:
  /// Switches the HPET's main counter on.
  static llvm::Expected<VirtualClock> start(QtestClient &client);

  /// Nanoseconds since the counter was started.
  llvm::Expected<uint64_t> now();
  /// Moves the clock on by at least `nanoseconds`, rounded up to the counter's step. Only with virtual time.
  /// The clock goes to 2⁶² ns; beyond is a Usage failure.
  llvm::Error advance(uint64_t nanoseconds, QemuProcess &process, uint64_t timeoutMs);

private:
  VirtualClock(QtestClient &client, uint64_t stepNs) : client(&client), stepNs(stepNs) {}

  QtestClient *client;
  uint64_t stepNs;
};

} // namespace tapeback
