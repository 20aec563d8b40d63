#include "hal/qemu/QtestClient.h"

namespace tapeback {

llvm::Error QtestClient::queue(const QtestCommand &command, uint64_t *answer) {
  if (dead())
    return state();
  if (pending.size() >= window) {
    // Half of them, so that filling up again costs one wait per half window and not one per command.
    if (llvm::Error error = send())
      return error;
    if (llvm::Error error = receiveUntil(window / 2))
      return error;
  }
  pending.push_back({command, answer});
  put(command.line());
  return llvm::Error::success();
}

llvm::Error QtestClient::post(const QtestCommand &command) {
  if (llvm::Error error = queue(command))
    return error;
  return send();
}

llvm::Error QtestClient::collect() {
  if (dead())
    return state();
  if (llvm::Error error = send())
    return error;
  return receiveUntil(0);
}

llvm::Expected<uint64_t> QtestClient::ask(const QtestCommand &command) {
  uint64_t answer = 0;
  if (llvm::Error error = queue(command, &answer))
    return error;
  if (llvm::Error error = collect())
    return error;
  return answer;
}

llvm::Error QtestClient::takeReply(llvm::StringRef line) {
  if (pending.empty())
    return nonsense(line, {});
  std::optional<uint64_t> value = pending.front().command.parseReply(line);
  if (!value)
    return nonsense(line, pending.front().command.text());
  if (pending.front().answer)
    *pending.front().answer = *value;
  pending.pop_front();
  ++answeredCount;
  return llvm::Error::success();
}

} // namespace tapeback
