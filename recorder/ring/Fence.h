// The collector's half of an asymmetric fence: one system call of the rare side instead of a fence in every
// call of the frequent one. See "Memory order" in RingFormat.h.
#pragma once

#include <atomic>
#include <cerrno>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tapeback::ring {

inline long membarrier(int command) {
  int saved = errno;
  long result = syscall(SYS_membarrier, command, 0, 0);
  errno = saved;
  return result;
}

/// Of the producer: from now on the collector's fences reach this process. False: it has to fence itself.
inline bool registerForFences() {
  return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
}

/// Of the collector, before the ring is made: can it fence for a producer?
inline bool canFenceProducers() {
  long known = membarrier(MEMBARRIER_CMD_QUERY);
  return known > 0 && (known & MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

/// Of the collector: what producers did before is visible now, or they see what this thread did before.
/// Where there is no such call the header says FullFences, and the exchange is this side's fence.
inline void fenceProducers() {
  static std::atomic<int> own{0};
  own.exchange(0, std::memory_order_seq_cst);
  membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

} // namespace tapeback::ring
