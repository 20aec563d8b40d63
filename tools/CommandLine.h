// How every verb parses its arguments: llvm::cl options as locals, with one behaviour for help and bad usage.
//
//   int runShow(llvm::ArrayRef<const char *> args) {
//     cl::opt<std::string> tape(cl::Positional, cl::Required, cl::desc("TAPE"));
//     NumberOption limit("limit", cl::desc("Stop after this many"), cl::value_desc("N"), cl::init(100));
//     CommandLine line({"show", "One line of what it does", "TAPE [options]", "Paragraphs …",
//                       "  tapeback show a.tape --limit 5\n"});
//     if (std::optional<int> exit = line.parse(args))
//       return *exit;
//     Report report("show", line.json());
//
// Why not llvm::cl alone: it expands "@name" as a response file (our ranges start with "@"), prints some
// errors past the stream it is given, exits by itself on --help, and offers LLVM's own options to our users.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>
#include <vector>

namespace tapeback {

/// What `--help` says besides the options.
struct VerbHelp {
  const char *verb;
  const char *summary;     ///< One line.
  const char *usage;       ///< What follows "tapeback VERB ".
  const char *description; ///< Paragraphs, wrapped at 100 columns, ending in a newline; may be empty.
  const char *examples;    ///< Lines indented by two, each ending in a newline.
  /// What the contract's codes mean for this verb, lines indented by two; null: the contract's table.
  const char *exitCodes = nullptr;
};

/// One per process: llvm::cl keeps one registry. Declare the options (as locals) before calling parse().
class CommandLine {
public:
  explicit CommandLine(const VerbHelp &help) : help(help) {}

  /// Makes everything after "--" available as rest() instead of as positionals (`record … -- program args`).
  CommandLine &takesRest() {
    wantsRest = true;
    return *this;
  }

  /// Nothing: go on. Otherwise the exit code to return: 0 after --help, 2 after bad usage, which has then
  /// been reported (as one JSON object on standard output if the arguments ask for --json).
  std::optional<int> parse(llvm::ArrayRef<const char *> args);

  bool json() const { return jsonFlag; }
  /// What follows "--", unparsed; the pointers are those given to parse().
  llvm::ArrayRef<const char *> rest() const { return restArgs; }
  bool sawRest() const { return restSeen; }

private:
  llvm::Error parseInto(llvm::ArrayRef<const char *> args);
  void printHelp() const;

  VerbHelp help;
  bool wantsRest = false, restSeen = false;
  std::vector<const char *> restArgs;
  llvm::cl::opt<bool> jsonFlag{
      "json", llvm::cl::desc("Write exactly one JSON object to standard output, also on error")};
};

/// Numbers as everywhere in Tapeback: 0x…, 1_000, and no "010", which llvm::cl takes for eight.
struct NumberParser : llvm::cl::parser<unsigned long long> {
  using llvm::cl::parser<unsigned long long>::parser;
  bool parse(llvm::cl::Option &option, llvm::StringRef name, llvm::StringRef text, unsigned long long &value);
};
using NumberOption = llvm::cl::opt<uint64_t, false, NumberParser>;

/// True if "--json" is among the arguments before "--": bad usage must be reported as JSON before parsing
/// succeeded.
bool asksForJson(llvm::ArrayRef<const char *> args);

/// The candidate closest to `word`, if close enough to be what was meant; otherwise empty.
std::string closest(llvm::StringRef word, llvm::ArrayRef<std::string> candidates);

} // namespace tapeback
