#include "hal/qemu/QtestControl.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

namespace tapeback {

const char *whyNoTextCommand(llvm::StringRef text) {
  if (text.size() > qtestTextBytes)
    return "the command is longer than 1024 characters";
  if (!llvm::all_of(text, [](char c) { return llvm::isPrint(c); }))
    return "the command has characters that are not printable";
  llvm::SmallVector<llvm::StringRef, 6> words;
  text.split(words, ' ');
  const bool intercept = words[0] == "irq_intercept_in" || words[0] == "irq_intercept_out";
  if (!intercept && words[0] != "set_irq_in")
    return "no command of qtest that names a device";
  if (words.size() < (intercept ? 2 : 5) || llvm::is_contained(words, llvm::StringRef()))
    return "an argument is missing: QEMU would abort";
  for (size_t i = 3; i < 5 && !intercept; ++i) {
    uint32_t number;
    if (words[i].getAsInteger(0, number) || number > INT32_MAX)
      return "the line or its level is no number: QEMU would abort";
  }
  return nullptr;
}

} // namespace tapeback
