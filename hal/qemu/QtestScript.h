// Commands of somebody's qtest script, of any length, and QEMU's answers to them.
#pragma once

#include "hal/qemu/QtestConnection.h"
#include <deque>
#include <map>
#include <utility>

namespace tapeback {

/// What a script's command came to.
struct QtestReply {
  bool refused = false; ///< FAIL or ERR: QEMU does not know the command, or not in this machine.
  std::string text;     ///< Behind "OK ", or all of what it said when it refused.
};

/// Pipelined like QtestClient, but what QEMU refuses is an answer, and its number is counted. Threads,
/// errors: QtestConnection's.
class QtestScript final : public QtestConnection {
public:
  /// No block of memory is longer.
  static constexpr uint64_t longestBlock = 64u << 20;

  QtestScript(FileDescriptor socket, QemuProcess &process, std::string name, uint64_t timeoutMs)
      : QtestConnection(std::move(socket), process, std::move(name), timeoutMs, 2 * longestBlock + 16) {}

  /// Queues a command, without newline and of the form that QEMU survives (QtestLine.h). `reply` (may be
  /// null) is filled in when it is collected, and must live until then. `counted`: it is the script's, not
  /// ours.
  llvm::Error queue(std::string command, QtestReply *reply = nullptr, bool counted = true);
  llvm::Error collect();
  /// queue and collect.
  llvm::Expected<QtestReply> ask(std::string command, bool counted = true);

  uint64_t issued() const { return issuedCount; }
  uint64_t answered() const { return answeredCount; } ///< Those refused too.
  uint64_t refused() const { return refusedCount; }
  /// How often an intercepted line was raised since it was asked for last.
  uint64_t takeRaised(uint32_t line) {
    auto found = raised.find(line);
    return found == raised.end() ? 0 : std::exchange(found->second, 0);
  }
  std::string present() const override { return pending.empty() ? std::string() : pending.front().text; }

private:
  struct Pending {
    std::string text; ///< As much of the command as a message wants.
    QtestReply *reply;
    bool counted;
  };

  llvm::Error takeReply(llvm::StringRef line) override;
  size_t awaited() const override { return pending.size(); }

  llvm::Error takeInterrupt(llvm::StringRef line);

  std::deque<Pending> pending;
  std::map<uint32_t, uint64_t> raised; ///< By line.
  uint64_t issuedCount = 0, answeredCount = 0, refusedCount = 0;
};

} // namespace tapeback
