#include "hal/TargetUri.h"
#include "format/Failure.h"
#include "format/Text.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

namespace tapeback {
namespace {

/// Untrusted text for a message: escaped, and not at full length.
std::string shown(llvm::StringRef text, size_t most = 64) {
  std::string out;
  llvm::raw_string_ostream os(out);
  llvm::printEscapedString(text.take_front(most), os);
  os << (text.size() > most ? "…" : "");
  return out;
}

llvm::Error badUri(llvm::StringRef text, const llvm::Twine &what) {
  return failUsage("bad-target-uri", what.str(), "target '" + shown(text, 128) + "'",
                   "a target is named as scheme:rest?key=value&key=value, for example "
                   "model:edu?fault=factorial");
}

bool isPrintable(unsigned char c) {
  return c >= 0x20 && c != 0x7f;
}

/// Decodes %XX; false if malformed or if the result has control characters.
bool decode(llvm::StringRef in, std::string &out) {
  out.clear();
  for (size_t i = 0; i < in.size(); ++i) {
    unsigned char c = in[i];
    if (c == '%') {
      if (i + 2 >= in.size())
        return false;
      unsigned high = llvm::hexDigitValue(in[i + 1]), low = llvm::hexDigitValue(in[i + 2]);
      if (high > 15 || low > 15)
        return false;
      c = static_cast<unsigned char>(high << 4 | low);
      i += 2;
    }
    if (!isPrintable(c))
      return false;
    out.push_back(char(c));
  }
  return true;
}

bool validScheme(llvm::StringRef scheme) {
  return !scheme.empty() && scheme.size() <= 32 && llvm::isAlpha(scheme.front()) &&
         llvm::all_of(scheme, [](char c) { return (c >= 'a' && c <= 'z') || llvm::isDigit(c) || c == '-'; });
}

bool validKey(llvm::StringRef key) {
  return !key.empty() && key.size() <= 64 &&
         llvm::all_of(key, [](char c) { return llvm::isAlnum(c) || c == '-' || c == '_' || c == '.'; });
}

llvm::Error badOption(const TargetUri &uri, llvm::StringRef key, const llvm::Twine &what, std::string hint) {
  return failUsage("bad-target-option", ("option '" + key + "': " + what).str(), "target '" + uri.text + "'",
                   std::move(hint));
}

} // namespace

const std::string *TargetUri::find(llvm::StringRef key) const {
  for (const Option &option : options)
    if (option.key == key)
      return &option.value;
  return nullptr;
}

llvm::Expected<TargetUri> parseTargetUri(llvm::StringRef text) {
  if (text.size() > maxTargetUriBytes)
    return badUri(text, "a target's name may have at most " + llvm::Twine(maxTargetUriBytes) + " bytes");
  size_t colon = text.find(':');
  if (colon == llvm::StringRef::npos)
    return badUri(text, text.empty() ? "no target was named" : "there is no ':' after the scheme");
  TargetUri uri;
  uri.text = text.str();
  uri.scheme = text.take_front(colon).str();
  if (!validScheme(uri.scheme))
    return badUri(text, "the scheme before ':' must be lower-case letters, digits and '-'");

  llvm::StringRef tail = text.drop_front(colon + 1);
  size_t question = tail.find('?');
  if (!decode(tail.take_front(question), uri.rest))
    return badUri(text, "the part after the scheme has a control character or a bad %XX");
  if (question == llvm::StringRef::npos)
    return uri;

  llvm::StringRef query = tail.drop_front(question + 1);
  while (true) {
    auto [piece, more] = query.split('&');
    auto [rawKey, rawValue] = piece.split('=');
    TargetUri::Option option;
    if (rawKey.size() == piece.size())
      return badUri(text, "option '" + shown(piece) + "' has no '='");
    if (!decode(rawKey, option.key) || !validKey(option.key))
      return badUri(text, "an option's name must be letters, digits, '-', '_' and '.'");
    if (!decode(rawValue, option.value))
      return badUri(text, "the value of option '" + option.key + "' has a control character or a bad %XX");
    if (uri.find(option.key))
      return badUri(text, "option '" + option.key + "' is given twice");
    if (uri.options.size() == maxTargetUriOptions)
      return badUri(text, "more than " + llvm::Twine(maxTargetUriOptions) + " options");
    uri.options.push_back(std::move(option));
    if (query.size() == piece.size())
      return uri;
    query = more;
  }
}

llvm::Error checkTargetOptions(const TargetUri &uri, llvm::ArrayRef<TargetOptionHelp> known) {
  for (const TargetUri::Option &option : uri.options) {
    if (llvm::any_of(known, [&](const TargetOptionHelp &help) { return option.key == help.key; }))
      continue;
    std::string list = known.empty() ? uri.scheme + ": has no options" : uri.scheme + ": has the options";
    for (const TargetOptionHelp &help : known)
      list += std::string("\n  ") + help.key + "=" + help.value + "  " + help.help;
    return failUsage("unknown-target-option", "there is no option '" + option.key + "'",
                     "target '" + uri.text + "'", std::move(list));
  }
  return llvm::Error::success();
}

llvm::Expected<uint64_t> numberOption(const TargetUri &uri, llvm::StringRef key, uint64_t fallback,
                                      uint64_t low, uint64_t high) {
  const std::string *value = uri.find(key);
  if (!value)
    return fallback;
  llvm::Expected<uint64_t> number = parseNumber(*value);
  if (!number) {
    Failure failure = toFailure(number.takeError());
    return badOption(uri, key, failure.message, failure.hint);
  }
  if (*number < low || *number > high)
    return badOption(uri, key, *value + " is out of range",
                     ("give a number from " + llvm::Twine(low) + " to " + llvm::Twine(high)).str());
  return *number;
}

llvm::Expected<size_t> choiceOption(const TargetUri &uri, llvm::StringRef key,
                                    llvm::ArrayRef<llvm::StringRef> choices, size_t fallback) {
  const std::string *value = uri.find(key);
  if (!value)
    return fallback;
  for (size_t i = 0; i < choices.size(); ++i)
    if (choices[i] == *value)
      return i;
  return badOption(uri, key, "there is no '" + *value + "'", "one of: " + llvm::join(choices, ", "));
}

llvm::Expected<uint64_t> timeoutOption(const TargetUri &uri) {
  return numberOption(uri, "timeout", defaultTimeoutMs, 1, 24u * 3600 * 1000);
}

} // namespace tapeback
