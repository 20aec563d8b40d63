#include "tools/Progress.h"
#include "llvm/Support/raw_ostream.h"
#include <unistd.h>

using namespace llvm;

namespace tapeback {

Progress::Progress(StringRef what, uint64_t total)
    : what(what), total(total), enabled(isatty(STDERR_FILENO)), started(std::chrono::steady_clock::now()),
      drawn(started) {}

Progress::~Progress() {
  if (shown)
    errs() << "\r\x1b[K";
}

void Progress::draw(uint64_t done, const std::string *text) {
  using namespace std::chrono_literals;
  auto now = std::chrono::steady_clock::now();
  if (now - started < 500ms || now - drawn < 100ms)
    return;
  drawn = now;
  shown = true;
  raw_ostream &os = errs();
  os << "\r" << what << " ";
  if (text) {
    os << *text;
  } else if (total) {
    constexpr unsigned cells = 40;
    double share = double(std::min(done, total)) / double(total);
    unsigned full = unsigned(share * cells);
    os << "[" << std::string(full, '#') << std::string(cells - full, '.') << "] " << unsigned(share * 100)
       << "%";
  } else {
    os << done;
  }
  os << "\x1b[K";
}

} // namespace tapeback
