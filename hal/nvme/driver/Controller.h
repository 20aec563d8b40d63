// The controller: enabling it, its admin queue, and its I/O queues.
#pragma once

#include "hal/nvme/driver/Queue.h"
#include <cstdio>
#include <vector>

namespace tapeback::nvme {

/// One thread. Functions return false after a failure of the target, which was told on standard error.
class Controller {
public:
  static constexpr unsigned mostQueues = 4;

  explicit Controller(tb_device *device) : device(device) {}

  /// Resets and enables it, identifies controller and namespace.
  bool start();
  /// Disables it.
  bool stop();

  /// One admin command, waited for.
  bool admin(Command command, Completion &completion);
  /// Creates the completion queue, then the submission queue; or deletes them in the other order.
  bool create(Queue &queue, unsigned entries);
  bool remove(Queue &queue);

  /// A page for what admin commands bring.
  const Memory &page() const { return adminPage; }
  uint64_t blocks() const { return namespaceBlocks; }

  bool good(const char *what, int code);
  /// A check that the command's status is that; returns false only if the target failed.
  bool expectStatus(const char *name, const Completion &completion, unsigned status);
  bool check(const char *name, bool holds);
  unsigned long long wrong = 0; ///< Checks that did not hold.
  bool failed = false;          ///< The target did.

private:
  bool waitReady(uint32_t value);

  tb_device *device;
  Queue adminQueue;
  Memory adminPage;
  uint64_t namespaceBlocks = 0;
};

} // namespace tapeback::nvme
