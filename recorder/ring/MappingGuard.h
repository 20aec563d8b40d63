// A shared mapping whose file somebody else may cut short: the ring lies in a file that the recorded program
// has to be able to open, so it can truncate it, and our next access to what is gone would be a SIGBUS.
//
// While a guard exists, such an access finds zeros instead, in memory of our own, and torn() says so. What
// reads the ring trusts nothing in there anyway.
#pragma once

#include <atomic>
#include <cstddef>

namespace tapeback::ring {

/// The process's SIGBUS is the guards' while there are any; one that is nobody's goes where it went before.
/// Threads that touch the mapping must not block it. More than a few at a time: the later ones do nothing.
class MappingGuard {
public:
  /// The whole of a mapping of `fd` from its beginning; both outlive the guard, or go just before it.
  MappingGuard(void *base, size_t bytes, int fd);
  ~MappingGuard();
  MappingGuard(const MappingGuard &) = delete;
  MappingGuard &operator=(const MappingGuard &) = delete;

  bool torn() const { return isTorn.load(std::memory_order_acquire); }
  /// In the handler: makes the access at `address` possible. False if it is not ours or cannot be.
  bool mend(void *address);

private:
  char *const base;
  const size_t bytes;
  const int fd;
  std::atomic<bool> isTorn{false};
};

} // namespace tapeback::ring
