// How a Failure prints, and how any llvm::Error becomes one.
#include "format/Failure.h"

#include "llvm/Support/raw_ostream.h"
#include <optional>

namespace tapeback {

char Failure::ID = 0;

void Failure::log(llvm::raw_ostream &os) const {
  if (!where.empty())
    os << where << ": ";
  os << message;
  if (!hint.empty())
    os << " (" << hint << ")";
}

static llvm::Error fail(FailureClass cls, std::string code, std::string message, std::string where,
                        std::string hint) {
  return llvm::make_error<Failure>(cls, std::move(code), std::move(message), std::move(where),
                                   std::move(hint));
}

llvm::Error failUsage(std::string code, std::string message, std::string where, std::string hint) {
  return fail(FailureClass::Usage, std::move(code), std::move(message), std::move(where), std::move(hint));
}
llvm::Error failTape(std::string code, std::string message, std::string where, std::string hint) {
  return fail(FailureClass::Tape, std::move(code), std::move(message), std::move(where), std::move(hint));
}
llvm::Error failTarget(std::string code, std::string message, std::string where, std::string hint) {
  return fail(FailureClass::Target, std::move(code), std::move(message), std::move(where), std::move(hint));
}
llvm::Error failSystem(std::string code, std::string message, std::string where, std::string hint) {
  return fail(FailureClass::System, std::move(code), std::move(message), std::move(where), std::move(hint));
}

Failure toFailure(llvm::Error error) {
  std::optional<Failure> first;
  // In order of joining: what came before the first Failure, and what came after it, is kept as text.
  std::string others;
  llvm::raw_string_ostream text(others);
  llvm::handleAllErrors(std::move(error), [&](const llvm::ErrorInfoBase &info) {
    if (!first && info.isA<Failure>()) {
      first = static_cast<const Failure &>(info);
      return;
    }
    if (!others.empty())
      text << "; ";
    info.log(text);
  });
  if (!first)
    return Failure(FailureClass::System, "internal",
                   others.empty() ? "an operation failed without saying why" : others);
  if (!others.empty())
    first->message += "; also: " + others;
  return std::move(*first);
}

} // namespace tapeback
