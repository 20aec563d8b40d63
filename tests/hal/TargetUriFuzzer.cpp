// Anything may be given as a target's name.
#include "format/Failure.h"
#include "hal/TargetUri.h"
#include <cstdlib>

using namespace tapeback;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  llvm::Expected<TargetUri> uri = parseTargetUri(text);
  if (!uri) {
    Failure failure = toFailure(uri.takeError());
    // A refusal is bad use, has a reason, and shows no control character of the input.
    bool printable = true;
    for (unsigned char c : failure.where + failure.message)
      printable = printable && c >= 0x20 && c != 0x7f;
    if (failure.cls != FailureClass::Usage || failure.message.empty() || !printable)
      std::abort();
    return 0;
  }
  // What was understood can be said again, and means the same.
  auto encoded = [](const std::string &part) {
    std::string out;
    const char *digits = "0123456789abcdef";
    for (unsigned char c : part) {
      out += '%';
      out += digits[c >> 4];
      out += digits[c & 15];
    }
    return out;
  };
  std::string again = uri->scheme + ":" + encoded(uri->rest);
  for (size_t i = 0; i < uri->options.size(); ++i)
    again += (i ? "&" : "?") + encoded(uri->options[i].key) + "=" + encoded(uri->options[i].value);
  if (again.size() > maxTargetUriBytes)
    return 0;
  llvm::Expected<TargetUri> second = parseTargetUri(again);
  if (!second || second->rest != uri->rest || second->options.size() != uri->options.size())
    std::abort();
  for (size_t i = 0; i < uri->options.size(); ++i)
    if (second->options[i].key != uri->options[i].key || second->options[i].value != uri->options[i].value)
      std::abort();
  return 0;
}
