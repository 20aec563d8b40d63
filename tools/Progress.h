// A progress bar on standard error: only on a terminal, only once the work proves long.
#pragma once

#include "llvm/ADT/StringRef.h"
#include <chrono>
#include <cstdint>
#include <string>

namespace tapeback {

/// Call update() as often as you like: it looks at the clock once every 256 calls. The bar appears after half
/// a second and is wiped by the destructor, so that what is printed next starts on a clean line.
class Progress {
public:
  /// `total` 0: unknown; a count is shown instead of a bar.
  Progress(llvm::StringRef what, uint64_t total);
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;
  ~Progress();

  void update(uint64_t done) {
    if (enabled && (++calls & 0xff) == 0)
      draw(done);
  }
  /// The same for callers that have a pace of their own.
  void show(uint64_t done) {
    if (enabled)
      draw(done);
  }
  /// Words of the caller's own instead of a count.
  void say(const std::string &text) {
    if (enabled)
      draw(0, &text);
  }
  /// For work that only finds out how much it is.
  void show(uint64_t done, uint64_t of) {
    total = of;
    show(done);
  }

private:
  void draw(uint64_t done, const std::string *text = nullptr);

  std::string what;
  uint64_t total;
  uint32_t calls = 0;
  bool enabled;
  bool shown = false;
  std::chrono::steady_clock::time_point started, drawn;
};

} // namespace tapeback
