// The transport of QEMU's qtest protocol: lines out, lines in, bounded in time and memory, and the end of a
// QEMU told once and for all.
#pragma once

#include "format/Failure.h"
#include "hal/FileDescriptor.h"
#include "hal/qemu/QemuProcess.h"
#include "llvm/ADT/StringRef.h"
#include <optional>

namespace tapeback {

/// What is made of lines is its heirs' business. Threads: one. Errors: the first failure is the last:
/// "target-died" (with the process's fate and last words), "target-hung" (no answer within the timeout,
/// counted anew after each piece of one) or "target-nonsense" (with the line). QEMU is then killed, and every
/// further call fails at once with the same failure.
class QtestConnection {
public:
  bool dead() const { return death.has_value(); }
  /// The failure that ended everything, or success.
  llvm::Error state() const;
  /// Ends everything: for what else shows that QEMU is of no more use.
  llvm::Error fail(std::string code, std::string message, std::string hint);

protected:
  /// `process` must outlive the connection. `name` is the place in failures.
  QtestConnection(FileDescriptor socket, QemuProcess &process, std::string name, uint64_t timeoutMs,
                  size_t longestReply)
      : process(process), socket(std::move(socket)), name(std::move(name)), timeoutMs(timeoutMs),
        longestReply(longestReply) {}
  ~QtestConnection() = default;

  void put(llvm::StringRef line) { toSend += line; } ///< With its newline.
  size_t bytesToSend() const { return toSend.size(); }
  llvm::Error send();
  llvm::Error receiveUntil(size_t unansweredLeft);
  /// QEMU answered with what is no answer, or without having been asked.
  llvm::Error nonsense(llvm::StringRef line, llvm::StringRef command);

  /// One line, without its newline. An error must come from fail().
  virtual llvm::Error takeReply(llvm::StringRef line) = 0;
  virtual size_t awaited() const = 0;
  /// The command whose answer is due, for failures; empty: none.
  virtual std::string present() const = 0;

  QemuProcess &process;

private:
  llvm::Error takeInput(llvm::StringRef bytes);
  llvm::Error waitFor(short events);
  llvm::Error died();
  llvm::Error hung();
  std::string place() const;

  FileDescriptor socket;
  std::string name;
  uint64_t timeoutMs;
  size_t longestReply;
  std::string toSend;
  std::string partial; ///< The beginning of a reply whose newline has not come yet.
  std::optional<Failure> death;
};

} // namespace tapeback
