// Events between recordings on one machine: `raise` in one is `raised` in the others.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tapeback {

struct BusMessage {
  std::string event;                   ///< At most 64 bytes.
  int pid = 0;                         ///< Of the recorder that raised it.
  uint64_t sentNs = 0, receivedNs = 0; ///< CLOCK_MONOTONIC, which all processes of a machine share.
};

/// One socket in a directory that only this user can look into (0700); what is raised goes to all the other
/// sockets there. Nothing is kept for recordings that begin later, nothing waits for anybody: a receiver that
/// does not read loses events, which is counted. What comes in is untrusted and bounded: 1,024 messages wait.
/// Threads: raise() and take() from any.
class TriggerBus {
public:
  /// `directory` empty: "tapeback-events" in $XDG_RUNTIME_DIR, or in /tmp with the user's id. `wake` is
  /// called on a thread of its own when something came.
  static llvm::Expected<std::unique_ptr<TriggerBus>> join(llvm::StringRef directory,
                                                          std::function<void()> wake);
  ~TriggerBus();
  TriggerBus(const TriggerBus &) = delete;
  TriggerBus &operator=(const TriggerBus &) = delete;

  void raise(llvm::StringRef event);
  std::vector<BusMessage> take();
  uint64_t notDelivered() const { return lost; }

private:
  TriggerBus() = default;
  void listen();

  std::string directory, path;
  int socketFd = -1, stopFd = -1;
  std::function<void()> wake;
  std::mutex lock;
  std::vector<BusMessage> waiting;
  uint64_t lost = 0;
  std::thread listener;
};

} // namespace tapeback
