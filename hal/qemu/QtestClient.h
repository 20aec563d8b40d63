// The client side of QEMU's qtest socket: pipelined, bounded in time and memory, and suspicious of every
// reply.
#pragma once

#include "hal/qemu/QtestConnection.h"
#include "hal/qemu/QtestLine.h"
#include "llvm/ADT/ArrayRef.h"
#include <deque>

namespace tapeback {

/// Commands go out at once (or, queued, in one piece); their answers are collected later, in order. At most
/// `window` are unanswered at a time. Threads, errors: QtestConnection's.
class QtestClient final : public QtestConnection {
public:
  static constexpr size_t window = 128;

  /// `process` must outlive the client. `name` is the place in failures.
  QtestClient(FileDescriptor socket, QemuProcess &process, std::string name, uint64_t timeoutMs)
      : QtestConnection(std::move(socket), process, std::move(name), timeoutMs, longestQtestReply) {}

  /// Queues a command; `answer` (may be null) gets its number when it is collected and must live until then.
  /// Collects only if too many are unanswered.
  llvm::Error queue(const QtestCommand &command, uint64_t *answer = nullptr);
  /// Queues and sends; does not wait for the answer.
  llvm::Error post(const QtestCommand &command);
  /// Sends what is queued and waits for all answers.
  llvm::Error collect();
  /// queue and collect.
  llvm::Expected<uint64_t> ask(const QtestCommand &command);

  /// How many commands were answered so far; the next failure is that of command number answered().
  uint64_t answered() const { return answeredCount; }
  size_t unanswered() const { return pending.size(); }

private:
  struct Pending {
    QtestCommand command;
    uint64_t *answer;
  };

  llvm::Error takeReply(llvm::StringRef line) override;
  size_t awaited() const override { return pending.size(); }
  std::string present() const override {
    return pending.empty() ? std::string() : pending.front().command.text().str();
  }

  std::deque<Pending> pending;
  uint64_t answeredCount = 0;
};

} // namespace tapeback
