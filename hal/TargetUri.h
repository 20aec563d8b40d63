// The name of a target: "scheme:rest?key=value&key=value".
//
// Strict and bounded: what is not exactly of this shape is refused with the place in the text. "%41" is
// decoded in the rest, in keys and in values (after splitting, so "%26" is an ampersand inside a value); "+"
// means itself; control characters and NUL are refused even when encoded. A key may appear once.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace tapeback {

struct TargetUri {
  struct Option {
    std::string key, value;
  };
  std::string text;            ///< As given.
  std::string scheme;          ///< Lower case.
  std::string rest;            ///< Between ":" and "?", decoded. May be empty.
  std::vector<Option> options; ///< In the order of the text.

  /// The option's value, or null.
  const std::string *find(llvm::StringRef key) const;
};

constexpr size_t maxTargetUriBytes = 4096;
constexpr size_t maxTargetUriOptions = 64;

llvm::Expected<TargetUri> parseTargetUri(llvm::StringRef text);

/// An option that a target knows, for the check and for the message that lists what there is.
struct TargetOptionHelp {
  const char *key;
  const char *value; ///< What to give, e.g. "MS" or "a,b,c".
  const char *help;  ///< One line.
};

/// Usage failure "unknown-target-option" that lists `known` if the URI has an option that is not among them.
llvm::Error checkTargetOptions(const TargetUri &uri, llvm::ArrayRef<TargetOptionHelp> known);

/// The option as a number in [low, high], or `fallback` if absent. Usage failure "bad-target-option"
/// otherwise.
llvm::Expected<uint64_t> numberOption(const TargetUri &uri, llvm::StringRef key, uint64_t fallback,
                                      uint64_t low, uint64_t high);

/// The option as one of `choices` (its index), or `fallback` if absent.
llvm::Expected<size_t> choiceOption(const TargetUri &uri, llvm::StringRef key,
                                    llvm::ArrayRef<llvm::StringRef> choices, size_t fallback);

/// "timeout=MS", which every target has: host milliseconds that one operation may take.
constexpr uint64_t defaultTimeoutMs = 10000;
llvm::Expected<uint64_t> timeoutOption(const TargetUri &uri);

/// The name of the device at the other end, which is also that of its installed description ("edu"), without
/// opening it: from the URI, or from what the system says of the address. Empty if that cannot be told.
/// (TargetTable.cpp)
std::string targetDeviceName(const TargetUri &uri);

} // namespace tapeback
