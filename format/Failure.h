// The one error type that carries what a user needs: what, where, what to do, and which exit code.
//
// Libraries return llvm::Error; whatever reaches a user is (or is converted by a tool into) a Failure.
#pragma once

#include "llvm/Support/Error.h"
#include <string>

namespace tapeback {

/// Who is at fault. The numbers are the exit codes of the contract and never change.
enum class FailureClass : int {
  Usage = 2,  ///< Bad usage, or a bad description, trigger file or other input text.
  Tape = 3,   ///< A damaged or foreign tape.
  Target = 4, ///< The target hung, was unreachable, refused, or died.
  Loss = 5,   ///< Done, but not all of it: recovered, incomplete, not understood.
  System = 6, ///< The machine failed us (disk full, no memory). Tools exit 2 for it: nothing else fits.
};

/// An error with everything the contract's JSON error object needs.
/// Plain value; no file, device or user input can make its construction fail.
class Failure : public llvm::ErrorInfo<Failure> {
public:
  static char ID;

  Failure(FailureClass cls, std::string code, std::string message, std::string where = {},
          std::string hint = {})
      : cls(cls), code(std::move(code)), message(std::move(message)), where(std::move(where)),
        hint(std::move(hint)) {}

  void log(llvm::raw_ostream &os) const override;
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

  FailureClass cls;
  std::string code;    ///< Stable kebab-case identifier, e.g. "bad-magic". Scripts match on it.
  std::string message; ///< One sentence: what is wrong.
  std::string where;   ///< File, offset, window, line and column; empty if there is no place.
  std::string hint;    ///< What to do next; empty only if there is nothing to be done.
};

/// Shorthands. `code` is stable, `message` one sentence.
llvm::Error failUsage(std::string code, std::string message, std::string where = {}, std::string hint = {});
llvm::Error failTape(std::string code, std::string message, std::string where = {}, std::string hint = {});
llvm::Error failTarget(std::string code, std::string message, std::string where = {}, std::string hint = {});
llvm::Error failSystem(std::string code, std::string message, std::string where = {}, std::string hint = {});

/// Takes any Error apart into one Failure (several joined errors: the first Failure, the rest in its message;
/// foreign errors become a System failure with their text). Success is not allowed.
Failure toFailure(llvm::Error error);

} // namespace tapeback
