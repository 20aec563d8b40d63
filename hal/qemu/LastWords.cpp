#include "hal/qemu/LastWords.h"
#include "llvm/ADT/StringExtras.h"

namespace tapeback {
namespace {

/// Said at every start, because the CPU is parked and virtual time stands still; it explains nothing.
constexpr llvm::StringLiteral expectedWarning = "icount sleep disabled and no active timers";

constexpr size_t longestSummary = 400;

bool looksLikeReason(llvm::StringRef line) {
  return line.starts_with("qemu") || line.starts_with("ERROR:");
}

} // namespace

void LastWords::append(llvm::StringRef more) {
  more = more.take_back(capacity);
  if (text.size() + more.size() > capacity)
    text.erase(0, text.size() + more.size() - capacity);
  text.append(more.data(), more.size());
}

std::string summariseLastWords(llvm::StringRef tail) {
  llvm::StringRef last, reason;
  while (!tail.empty()) {
    auto [line, rest] = tail.split('\n');
    tail = rest;
    line = line.trim();
    if (line.empty() || line.contains(expectedWarning))
      continue;
    line.consume_front("Bail out! "); // GLib says it twice: with this in front, and without.
    last = line;
    if (looksLikeReason(line))
      reason = line;
  }
  return printable(reason.empty() ? last : reason, longestSummary);
}

std::string printable(llvm::StringRef text, size_t limit) {
  std::string out;
  for (char c : text.take_front(limit))
    out += llvm::isPrint(c) ? c : '?';
  if (text.size() > limit)
    out += "…";
  return out;
}

} // namespace tapeback
