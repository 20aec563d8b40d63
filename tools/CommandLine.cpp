#include "tools/CommandLine.h"
#include "format/Failure.h"
#include "format/Text.h"
#include "tools/Report.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <sys/mman.h>
#include <unistd.h>

using namespace llvm;

namespace tapeback {
namespace {

constexpr const char *contractExitCodes =
    "  0  done, and what was expected holds\n"
    "  1  done, and it does not\n"
    "  2  bad usage or bad input description\n"
    "  3  damaged or foreign tape\n"
    "  4  the target failed in a way the tape does not expect\n"
    "  5  done, but with loss or incomplete, or the machine failed (disk full)\n";

/// Our own options: those registered before llvm::cl adds its common ones (which it does when it parses).
std::vector<cl::Option *> ownOptions() {
  std::vector<cl::Option *> options;
  for (auto &entry : cl::SubCommand::getTopLevel().OptionsMap)
    options.push_back(entry.second);
  sort(options, [](const cl::Option *a, const cl::Option *b) { return a->ArgStr < b->ArgStr; });
  return options;
}

bool takesValue(const cl::Option &option) {
  return option.getValueExpectedFlag() == cl::ValueRequired;
}

bool required(const cl::Option &option) {
  return option.getNumOccurrencesFlag() == cl::Required || option.getNumOccurrencesFlag() == cl::OneOrMore;
}

bool repeatable(const cl::Option &option) {
  return option.getNumOccurrencesFlag() == cl::ZeroOrMore || option.getNumOccurrencesFlag() == cl::OneOrMore;
}

std::string dashed(StringRef name) {
  return (name.size() == 1 ? "-" : "--") + name.str();
}

/// llvm::cl writes some of its errors to llvm::errs() whatever stream it is given. While one of these exists,
/// file descriptor 2 is a memory file; text() gives it back and returns what was written.
class CapturedErrors {
public:
  CapturedErrors() {
    memory = memfd_create("tapeback-errors", MFD_CLOEXEC);
    saved = memory < 0 ? -1 : dup(STDERR_FILENO);
    if (saved >= 0)
      dup2(memory, STDERR_FILENO);
  }
  CapturedErrors(const CapturedErrors &) = delete;
  CapturedErrors &operator=(const CapturedErrors &) = delete;
  ~CapturedErrors() { release(); }

  std::string text() {
    std::string result;
    if (saved >= 0) {
      char buffer[4096];
      ssize_t got = pread(memory, buffer, sizeof buffer, 0);
      if (got > 0)
        result.assign(buffer, size_t(got));
    }
    release();
    return result;
  }

private:
  void release() {
    if (saved >= 0) {
      dup2(saved, STDERR_FILENO);
      close(saved);
    }
    if (memory >= 0)
      close(memory);
    saved = memory = -1;
  }
  int memory = -1, saved = -1;
};

/// "tapeback dump: for the --limit option: 'x' value invalid for uint argument!" → what we say.
Error fromLlvm(StringRef text, StringRef program, const std::string &seeHelp) {
  StringRef line = text.split('\n').first.trim();
  line.consume_front(program);
  line.consume_front(": ");
  std::string option;
  if (line.consume_front("for the ")) {
    auto [name, rest] = line.split(" option: ");
    option = "option " + dashed(name.ltrim("-")) + ": ";
    line = rest;
  }
  if (line.contains("must be specified at least once"))
    return failUsage("missing-option", option.substr(0, option.size() - 2) + " is required", "command line",
                     "see " + seeHelp);
  if (line.consume_front("Cannot find option named "))
    return failUsage("bad-option-value", option + "there is no value " + line.rtrim('!').str(),
                     "command line", seeHelp + " lists the values");
  // The names of C++ types are no business of a user's.
  line = line.take_until([](char c) { return c == '!'; });
  std::string message = line.str();
  if (size_t at = line.find(" value invalid for "); at != StringRef::npos)
    message = line.take_front(at).str() + " is not a number that fits here";
  else if (at = line.find(" is invalid value for boolean"); at != StringRef::npos)
    message = line.take_front(at).str() + " is neither true nor false";
  if (message.empty())
    message = "the command line could not be understood";
  return failUsage("bad-option-value", option + message, "command line", "see " + seeHelp);
}

} // namespace

bool NumberParser::parse(cl::Option &option, StringRef, StringRef text, unsigned long long &value) {
  Expected<uint64_t> number = parseNumber(text);
  if (!number)
    return option.error(toFailure(number.takeError()).message);
  value = *number;
  return false;
}

bool asksForJson(ArrayRef<const char *> args) {
  for (StringRef arg : args) {
    if (arg == "--")
      return false;
    if (arg == "--json" || arg == "--json=true")
      return true;
  }
  return false;
}

std::string closest(StringRef word, ArrayRef<std::string> candidates) {
  unsigned best = std::max<unsigned>(2, unsigned(word.size()) / 3) + 1;
  std::string found;
  for (const std::string &candidate : candidates) {
    unsigned distance = word.edit_distance(candidate, /*AllowReplacements=*/true, best);
    // A start of a word is what people type who expect completion.
    if (word.size() >= 2 && StringRef(candidate).starts_with(word))
      distance = std::min(distance, 1u);
    if (distance < best) {
      best = distance;
      found = candidate;
    }
  }
  return found;
}

std::optional<int> CommandLine::parse(ArrayRef<const char *> args) {
  for (StringRef arg : args) {
    if (arg == "--")
      break;
    if (arg == "--help" || arg == "-h") {
      printHelp();
      return Report(help.verb, false).finish(0);
    }
  }
  if (Error error = parseInto(args))
    return Report(help.verb, asksForJson(args)).fail(std::move(error));
  return std::nullopt;
}

Error CommandLine::parseInto(ArrayRef<const char *> args) {
  const std::string program = std::string("tapeback ") + help.verb;
  const std::string seeHelp = "`" + program + " --help`";
  std::vector<cl::Option *> options = ownOptions();
  auto usage = [&](const char *code, std::string message, std::string hint = {}) {
    return failUsage(code, std::move(message), "command line",
                     hint.empty() ? "see " + seeHelp : std::move(hint));
  };

  // First our own look: options become "--name=value", so that llvm::cl cannot mistake one word for another.
  std::vector<std::string> words;
  std::vector<const char *> positionals;
  std::vector<const cl::Option *> seen;
  for (size_t i = 0; i < args.size(); ++i) {
    StringRef arg = args[i];
    if (arg == "--") {
      auto after = args.drop_front(i + 1);
      restSeen = true;
      (wantsRest ? restArgs : positionals)
          .insert((wantsRest ? restArgs : positionals).end(), after.begin(), after.end());
      break;
    }
    if (!arg.starts_with("-") || arg == "-") {
      positionals.push_back(args[i]);
      continue;
    }
    bool doubleDash = arg.starts_with("--");
    auto [name, value] = arg.drop_front(doubleDash ? 2 : 1).split('=');
    bool hasValue = arg.contains('=');
    auto find = [&](StringRef wanted) -> cl::Option * {
      auto it = find_if(options, [&](const cl::Option *o) { return o->ArgStr == wanted; });
      return it == options.end() ? nullptr : *it;
    };
    cl::Option *option = !name.empty() && doubleDash == (name.size() > 1) ? find(name) : nullptr;
    if (!option && !doubleDash && arg.size() > 2) { // -oFILE
      option = find(arg.substr(1, 1));
      if (option && !takesValue(*option))
        option = nullptr;
      if (option) {
        name = arg.substr(1, 1);
        value = arg.drop_front(2);
        value.consume_front("=");
        hasValue = true;
      }
    }
    if (!option) {
      std::vector<std::string> names;
      for (const cl::Option *o : options)
        names.push_back(o->ArgStr.str());
      std::string near = closest(name, names);
      return usage("unknown-option", "unknown option '" + arg.str() + "'",
                   near.empty() ? "" : "did you mean '" + dashed(near) + "'? See " + seeHelp);
    }
    if (takesValue(*option) && !hasValue) {
      if (++i == args.size())
        return usage("missing-value", "option '" + arg.str() + "' needs a value");
      value = args[i];
      hasValue = true;
    }
    if (is_contained(seen, option) && !repeatable(*option))
      return usage("repeated-option", "option '" + dashed(name) + "' is given twice");
    seen.push_back(option);
    words.push_back("--" + name.str() + (hasValue ? "=" + value.str() : ""));
  }

  // Positionals are counted here for a message that says which is missing.
  auto &wanted = cl::SubCommand::getTopLevel().PositionalOpts;
  size_t index = 0;
  bool unlimited = any_of(wanted, [](const cl::Option *o) { return repeatable(*o); });
  for (const cl::Option *option : wanted) {
    if (index >= positionals.size() && required(*option))
      return usage("missing-argument", option->HelpStr.str() + " is missing",
                   "usage: " + program + " " + help.usage);
    ++index;
  }
  if (positionals.size() > wanted.size() && !unlimited)
    return usage("unexpected-argument",
                 std::string("unexpected argument '") + positionals[wanted.size()] + "'",
                 "usage: " + program + " " + help.usage);
  words.push_back("--");
  for (StringRef word : positionals)
    // llvm::cl would read "@name" as a file of arguments.
    words.push_back(word.starts_with("@") ? "./" + word.str() : word.str());

  std::vector<const char *> argv{program.c_str()};
  for (const std::string &word : words)
    argv.push_back(word.c_str());
  bool parsed;
  std::string captured;
  {
    CapturedErrors capture;
    parsed = cl::ParseCommandLineOptions(int(argv.size()), argv.data(), "", &errs());
    captured = capture.text();
  }
  if (!parsed)
    return fromLlvm(captured, program, seeHelp);
  // Again, now that llvm::cl knows which option an alias stands for; it would let the last one win.
  for (const cl::Option *option : options)
    if (option->getNumOccurrences() > 1 && !repeatable(*option))
      return usage("repeated-option", "option '" + dashed(option->ArgStr) + "' is given twice");
  return Error::success();
}

void CommandLine::printHelp() const {
  raw_ostream &os = outs();
  os << "tapeback " << help.verb << ": " << help.summary << "\n\nusage: tapeback " << help.verb << " "
     << help.usage << "\n";
  if (*help.description)
    os << "\n" << help.description;
  os << "\noptions:\n";
  std::vector<cl::Option *> options = ownOptions();
  size_t width = 13; // That of --help.
  for (const cl::Option *option : options)
    width = std::max(width, option->getOptionWidth());
  for (const cl::Option *option : options)
    option->printOptionInfo(width);
  os << "  --help" << std::string(width - 11, ' ') << " - Print this text\n";
  os << "\nexamples:\n" << help.examples;
  os << "\nexit codes:\n" << (help.exitCodes ? help.exitCodes : contractExitCodes);
}

} // namespace tapeback
