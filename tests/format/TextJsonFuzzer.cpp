// Any bytes as JSON, and as a number. What parses must print as something that parses to the same.
#include "format/Failure.h"
#include "format/Text.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  if (llvm::Expected<llvm::json::Value> value = tapeback::parseJson(text, "fuzz")) {
    std::string printed;
    llvm::raw_string_ostream(printed) << *value;
    llvm::Expected<llvm::json::Value> again = tapeback::parseJson(printed, "printed", {size_t(1) << 30, 32});
    if (!again || *again != *value)
      std::abort();
  } else {
    tapeback::toFailure(value.takeError());
  }
  if (llvm::Expected<uint64_t> number = tapeback::parseNumber(text.take_front(64))) {
    llvm::Expected<uint64_t> again = tapeback::parseNumber(std::to_string(*number));
    if (!again || *again != *number)
      std::abort();
  } else {
    tapeback::toFailure(number.takeError());
  }
  return 0;
}
