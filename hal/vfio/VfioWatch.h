// Watches for what the kernel says about a device behind the program's back: it wants it back (unplug,
// unbind: REQ) or the bus reported an error (AER: ERR).
//
// A thread sleeps on the two eventfds and sets a flag, so that looking costs the access path one relaxed
// load.
#pragma once

#include "hal/FileDescriptor.h"
#include "hal/HelperThread.h"
#include "llvm/Support/Error.h"
#include <atomic>
#include <memory>

namespace tapeback {

class VfioWatch {
public:
  enum class News : int { None = 0, Unplugged = 1, BusError = 2 };

  static llvm::Expected<std::unique_ptr<VfioWatch>> open(int device);
  ~VfioWatch();

  News news() const { return News(state.load(std::memory_order_relaxed)); }
  /// Success, or the failure that the news amounts to.
  llvm::Error check(llvm::StringRef device) const;
  /// Becomes readable when there is news: for waits.
  int descriptor() const { return stopped.get(); }

private:
  VfioWatch() = default;
  void run();

  FileDescriptor request, error, stopped, quit;
  std::atomic<int> state{0};
  HelperThread helper;
  pthread_t thread{};
  bool running = false;
};

} // namespace tapeback
