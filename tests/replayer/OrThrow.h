// For what prepares a test and cannot fail unless the test is wrong.
#pragma once

#include "llvm/Support/Error.h"
#include <stdexcept>

namespace tapeback::test {

inline void orThrow(llvm::Error error) {
  if (error)
    throw std::runtime_error(llvm::toString(std::move(error)));
}

template <typename T>
T orThrow(llvm::Expected<T> value) {
  if (!value)
    throw std::runtime_error(llvm::toString(value.takeError()));
  return std::move(*value);
}

} // namespace tapeback::test
