// Small pieces of text that messages are made of.
#pragma once

#include "llvm/ADT/StringExtras.h"
#include <cstdint>
#include <string>
#include <system_error>

namespace tapeback {

/// "0x1f".
inline std::string hexText(uint64_t value) {
  return "0x" + llvm::utohexstr(value, /*LowerCase=*/true);
}

/// What a number of errno means. Unlike strerror() for any thread.
inline std::string errnoText(int number) {
  return std::generic_category().message(number);
}

} // namespace tapeback
