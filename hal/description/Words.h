// The words of the grammar that stand for enumerators, and suggestions for misspelt ones. Inside this folder
// only.
#pragma once

#include "hal/description/Description.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace tapeback::words {

template <typename T>
struct Word {
  llvm::StringLiteral text;
  T value;
};

llvm::ArrayRef<Word<RegisterClass>> classes();
llvm::ArrayRef<Word<RegisterAccess>> accesses();
llvm::ArrayRef<Word<ReplayPolicy>> policies();
llvm::ArrayRef<Word<bool>> directions(); ///< True is to the device.

/// What a register of that class is compared by if the description does not say.
ReplayPolicy defaultPolicy(RegisterClass c);

/// "; did you mean 'X'?" for the nearest of `names` if it is near enough, else "".
std::string suggestion(llvm::StringRef word, llvm::ArrayRef<llvm::StringRef> names);

} // namespace tapeback::words
