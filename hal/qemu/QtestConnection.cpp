#include "hal/qemu/QtestConnection.h"
#include "hal/qemu/LastWords.h"
#include <cerrno>
#include <chrono>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>

namespace tapeback {
namespace {

/// How long a process that closed its socket may take to be seen ended, at most.
constexpr uint64_t timeToDieMs = 5000;

} // namespace

llvm::Error QtestConnection::state() const {
  if (death)
    return llvm::make_error<Failure>(*death);
  return llvm::Error::success();
}

llvm::Error QtestConnection::send() {
  size_t sent = 0;
  while (sent < toSend.size()) {
    ssize_t count =
        ::send(socket.get(), toSend.data() + sent, toSend.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      sent += size_t(count);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (llvm::Error error = waitFor(POLLOUT))
        return error;
    } else if (errno == EPIPE || errno == ECONNRESET) {
      break; // Replies that came before the end are still to be read; receiveUntil finds the end.
    } else if (errno != EINTR) {
      return fail("target-unreachable", std::string("cannot write to QEMU's socket: ") + std::strerror(errno),
                  {});
    }
  }
  toSend.clear();
  return llvm::Error::success();
}

llvm::Error QtestConnection::receiveUntil(size_t unansweredLeft) {
  char buffer[4096];
  while (awaited() > unansweredLeft) {
    ssize_t count = ::recv(socket.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (count > 0) {
      if (llvm::Error error = takeInput(llvm::StringRef(buffer, size_t(count))))
        return error;
    } else if (count == 0 || errno == ECONNRESET) {
      return died();
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (llvm::Error error = waitFor(POLLIN))
        return error;
    } else if (errno != EINTR) {
      return fail("target-unreachable",
                  std::string("cannot read from QEMU's socket: ") + std::strerror(errno), {});
    }
  }
  return llvm::Error::success();
}

llvm::Error QtestConnection::takeInput(llvm::StringRef bytes) {
  while (!bytes.empty()) {
    size_t newline = bytes.find('\n');
    llvm::StringRef piece = bytes.take_front(newline);
    if (partial.size() + piece.size() > longestReply)
      return takeReply(partial + piece.take_front(longestReply).str());
    if (newline == llvm::StringRef::npos) {
      partial += piece;
      return llvm::Error::success();
    }
    bytes = bytes.drop_front(newline + 1);
    llvm::Error error = llvm::Error::success();
    if (partial.empty()) {
      error = takeReply(piece);
    } else {
      partial += piece;
      error = takeReply(partial);
      partial.clear();
    }
    if (error)
      return error;
  }
  return llvm::Error::success();
}

llvm::Error QtestConnection::nonsense(llvm::StringRef line, llvm::StringRef command) {
  return fail(
      "target-nonsense",
      "QEMU answered '" + printable(line, 80) + "'" +
          (command.empty() ? std::string(" when nothing had been asked") : " to '" + command.str() + "'"),
      "see that the program named by qemu= is QEMU, and of a version that is supported");
}

llvm::Error QtestConnection::waitFor(short events) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(timeoutMs);
  pollfd watched{socket.get(), events, 0};
  while (true) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0)
      return hung();
    int ready = ::poll(&watched, 1, int(std::min<int64_t>(left, 60'000)));
    if (ready > 0)
      return llvm::Error::success(); // Also when it hung up: the caller's next read or write says so.
    if (ready < 0 && errno != EINTR && errno != EAGAIN)
      return fail("target-unreachable", std::string("cannot wait for QEMU: ") + std::strerror(errno), {});
  }
}

llvm::Error QtestConnection::died() {
  if (!process.waitEnd(std::min(timeToDieMs, timeoutMs) * 1'000'000))
    return fail("target-died", "QEMU closed its connection and went on running", "see that it is QEMU");
  std::string words = summariseLastWords(process.output());
  std::string message = "QEMU " + process.fate();
  message += words.empty() ? std::string(" without a word") : "; its last words: \"" + words + "\"";
  return fail("target-died", std::move(message),
              "the operation before it is the first suspect; device models abort on what they do not expect");
}

llvm::Error QtestConnection::hung() {
  std::string words = summariseLastWords(process.output());
  std::string message = "QEMU did not answer within " + std::to_string(timeoutMs) + " ms";
  if (!words.empty())
    message += "; its last words: \"" + words + "\"";
  return fail("target-hung", std::move(message), "timeout=MS gives it longer");
}

llvm::Error QtestConnection::fail(std::string code, std::string message, std::string hint) {
  if (!death) {
    process.kill();
    death.emplace(FailureClass::Target, std::move(code), std::move(message), place(), std::move(hint));
  }
  return state();
}

std::string QtestConnection::place() const {
  std::string command = present();
  return command.empty() ? name : name + ", '" + command + "'";
}

} // namespace tapeback
