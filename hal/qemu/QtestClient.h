// The client side of QEMU's qtest socket: pipelined, bounded in time and memory, and suspicious of every
// reply.
#pragma once

#include "format/Failure.h"
#include "hal/FileDescriptor.h"
#include "hal/qemu/QemuProcess.h"
#include "hal/qemu/QtestLine.h"
#include "llvm/ADT/ArrayRef.h"
#include <deque>
#include <optional>

namespace tapeback {

/// Commands go out at once (or, queued, in one piece); their answers are collected later, in order. At most
/// `window` are unanswered at a time.
///
/// Threads: one. Errors: the first failure is the last: "target-died" (with the process's fate and last
/// words), "target-hung" (no answer within the timeout, counted anew after each answer) or "target-nonsense"
/// (with the line). QEMU is then killed, and every further call fails at once with the same failure.
class QtestClient {
public:
  static constexpr size_t window = 128;

  /// `process` must outlive the client. `name` is the place in failures.
  QtestClient(FileDescriptor socket, QemuProcess &process, std::string name, uint64_t timeoutMs)
      : socket(std::move(socket)), process(process), name(std::move(name)), timeoutMs(timeoutMs) {}

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

  bool dead() const { return death.has_value(); }
  /// The failure that ended everything, or success.
  llvm::Error state() const;
  /// Ends everything: for what else shows that QEMU is of no more use.
  llvm::Error fail(std::string code, std::string message, std::string hint);

private:
  struct Pending {
    QtestCommand command;
    uint64_t *answer;
  };

  llvm::Error send();
  llvm::Error receiveUntil(size_t unansweredLeft);
  llvm::Error takeInput(llvm::StringRef bytes);
  llvm::Error takeReply(llvm::StringRef line);
  llvm::Error waitFor(short events);
  llvm::Error died();
  llvm::Error hung();
  std::string place() const;

  FileDescriptor socket;
  QemuProcess &process;
  std::string name;
  uint64_t timeoutMs;
  std::string toSend;
  std::string partial; ///< The beginning of a reply whose newline has not come yet.
  std::deque<Pending> pending;
  uint64_t answeredCount = 0;
  std::optional<Failure> death;
};

} // namespace tapeback
