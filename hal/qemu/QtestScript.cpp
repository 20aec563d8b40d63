#include "hal/qemu/QtestScript.h"

namespace tapeback {
namespace {

constexpr size_t window = 128, mostBytesAtOnce = 1 << 20, shownBytes = 96, mostLines = 4096;

} // namespace

llvm::Error QtestScript::queue(std::string command, QtestReply *reply, bool counted) {
  if (dead())
    return state();
  // QEMU stops reading while it cannot answer: there must never be much on the way in both directions.
  if (pending.size() >= window || bytesToSend() + command.size() > mostBytesAtOnce)
    if (llvm::Error error = collect())
      return error;
  put(command);
  put("\n");
  if (command.size() > shownBytes) {
    command.resize(shownBytes);
    command += "…";
  }
  pending.push_back({std::move(command), reply, counted});
  issuedCount += counted;
  return llvm::Error::success();
}

llvm::Error QtestScript::collect() {
  if (dead())
    return state();
  if (llvm::Error error = send())
    return error;
  return receiveUntil(0);
}

llvm::Expected<QtestReply> QtestScript::ask(std::string command, bool counted) {
  QtestReply reply;
  if (llvm::Error error = queue(std::move(command), &reply, counted))
    return error;
  if (llvm::Error error = collect())
    return error;
  return reply;
}

llvm::Error QtestScript::takeReply(llvm::StringRef line) {
  if (line.starts_with("IRQ ")) // Of a machine whose interrupts are intercepted, between the answers.
    return takeInterrupt(line);
  if (pending.empty())
    return nonsense(line, {});
  const Pending &front = pending.front();
  bool refused = line.starts_with("FAIL") || line.starts_with("ERR");
  bool fine = line.consume_front("OK") && (line.empty() || line.consume_front(" "));
  if (!refused && !fine)
    return nonsense(line, front.text);
  if (front.reply)
    *front.reply = {refused, line.str()};
  answeredCount += front.counted;
  refusedCount += front.counted && refused;
  pending.pop_front();
  return llvm::Error::success();
}

llvm::Error QtestScript::takeInterrupt(llvm::StringRef line) {
  llvm::StringRef rest = line.drop_front(4);
  const bool raise = rest.consume_front("raise ");
  uint32_t number;
  if ((!raise && !rest.consume_front("lower ")) || rest.getAsInteger(10, number) ||
      raised.size() >= mostLines)
    return nonsense(line, present());
  if (raise)
    ++raised[number];
  return llvm::Error::success();
}

} // namespace tapeback
