// What the parts of the resolver need: bounds, names, words, and registers by name. Inside this folder
// only.
#pragma once

#include "hal/description/Raw.h"
#include "hal/description/Words.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace tapeback {

constexpr size_t maxRegisters = 65536, maxFields = 64, maxActivities = 1024, maxWindows = 1024,
                 maxSpaces = 64;
constexpr size_t maxListed = 4096;  // Any other list at the top.
constexpr size_t maxForbidden = 64; // Each access of a tape is looked up in all.
constexpr size_t maxPerActivity = 64;
constexpr size_t maxLayouts = 64, maxForms = 256, maxQueues = 64;
constexpr size_t maxEntryBytes = 4096, maxChain = 65536;
constexpr size_t maxEntryFields =
    16384; // Of all forms together: a layout's common fields are in each of its forms.
constexpr size_t maxName = 64, maxDoc = 4096;

/// Why a register may not stand in some place.
enum Need : unsigned {
  Anything = 0,
  Readable = 1 << 0,
  Writable = 1 << 1,
  HarmlessToRead = 1 << 2, ///< Reading it changes nothing.
  MayBeWritten = 1 << 3,   ///< By a replay, without the user naming it.
};

/// Checks of a document; what is wrong is complained about where it stands. The document, the complaints and
/// the description that is being made must outlive this.
class Checks {
protected:
  Checks(const raw::Document &in, YamlComplaints &complaints, Description &out)
      : in(in), complaints(complaints), out(out) {
    for (unsigned i = 0; i < out.registers.size(); ++i)
      registersByName[out.registers[i].name] = i;
  }

  void complain(llvm::SMRange where, const llvm::Twine &message) { complaints.add(where, message); }

  bool within(size_t count, size_t most, const char *what, llvm::SMRange where = {}) {
    if (count > most)
      complain(where, llvm::Twine(count) + " " + what + "; at most " + llvm::Twine(most) + " are accepted");
    return count <= most;
  }

  bool checkName(const raw::Text &name, const char *what) {
    llvm::StringRef text = name.value;
    bool good = !text.empty() && text.size() <= maxName && llvm::all_of(text, [](char c) {
      return llvm::isAlnum(c) || c == '_' || c == '.' || c == '-';
    });
    if (!good)
      complain(name.where, llvm::Twine("a ") + what + " name is 1 to 64 of the characters A-Z a-z 0-9 _ . -");
    return good;
  }
  bool checkUnique(const raw::Text &name, const char *what, llvm::StringSet<> &seen) {
    if (!checkName(name, what))
      return false;
    bool fresh = seen.insert(name.value).second;
    if (!fresh)
      complain(name.where, llvm::Twine("a second ") + what + " named '" + name.value + "'");
    return fresh;
  }
  void checkProse(const std::string &text, const char *what, llvm::SMRange where) {
    if (text.size() > maxDoc)
      complain(where, llvm::Twine(what) + " has more than " + llvm::Twine(maxDoc) + " bytes");
  }

  template <typename T>
  T wordOr(const std::optional<raw::Text> &text, llvm::ArrayRef<words::Word<T>> table, const char *what,
           T fallback) {
    return text ? word(*text, table, what, fallback) : fallback;
  }
  template <typename T>
  T word(const raw::Text &text, llvm::ArrayRef<words::Word<T>> table, const char *what, T fallback) {
    std::vector<llvm::StringRef> names;
    for (const words::Word<T> &entry : table) {
      if (entry.text == text.value)
        return entry.value;
      names.push_back(entry.text);
    }
    complain(text.where, llvm::Twine("unknown ") + what + " '" + text.value + "'" +
                             words::suggestion(text.value, names) + " (one of: " + llvm::join(names, ", ") +
                             ")");
    return fallback;
  }

  /// Whether the number fits the register; the complaint says what was meant.
  bool fits(const raw::Number &number, const RegisterDescription &reg, const char *what) {
    if ((number.value.value & ~reg.widthMask()) == 0)
      return true;
    complain(number.where, llvm::Twine(what) + " has bits outside the " + llvm::Twine(8 * reg.width) +
                               " bits of " + reg.name);
    return false;
  }

  unsigned reference(const raw::Text &name, unsigned needs) {
    auto found = registersByName.find(name.value);
    if (found == registersByName.end()) {
      std::vector<llvm::StringRef> names;
      if (++suggestions <= 8) // A search through all names each: only for complaints that will be seen.
        for (const RegisterDescription &reg : out.registers)
          names.push_back(reg.name);
      complain(name.where,
               "no register is named '" + name.value + "'" + words::suggestion(name.value, names));
      return 0;
    }
    const RegisterDescription &reg = out.registers[found->second];
    auto refuse = [&](const llvm::Twine &why) { complain(name.where, reg.name + " " + why); };
    if (!reg.aliasOf.empty())
      refuse("is an alias; name " + reg.aliasOf + " here");
    else if ((needs & Readable) && reg.access == RegisterAccess::WriteOnly)
      refuse("is write-only and is read here");
    else if ((needs & Writable) && reg.access == RegisterAccess::ReadOnly)
      refuse("is read-only and is written here");
    else if ((needs & HarmlessToRead) &&
             (reg.cls == RegisterClass::ReadToClear || reg.cls == RegisterClass::Fifo))
      refuse("changes when it is read and may not be read here");
    else if ((needs & MayBeWritten) && reg.policy == ReplayPolicy::Forbidden)
      refuse("is forbidden to a replay and is written here");
    else if (const ForbiddenRange *range =
                 (needs & MayBeWritten) ? findForbidden(out.forbidden, reg.space, reg.offset, reg.width)
                                        : nullptr)
      refuse("lies in '" + range->name + "', which is forbidden to a replay, and is written here");
    return found->second;
  }

  RegisterCondition condition(const raw::Condition &from, unsigned needs) {
    RegisterCondition to;
    to.reg = reference(from.reg, needs);
    const RegisterDescription *reg = out.registers.empty() ? nullptr : &out.registers[to.reg];
    to.mask = from.mask ? from.mask->value.value : reg ? reg->widthMask() : ~uint64_t(0);
    to.any = from.any && from.any->value;
    to.value = from.value ? from.value->value.value : 0;
    if (!reg)
      return to;
    if (from.mask && fits(*from.mask, *reg, "the mask") && to.mask == 0 && !to.any)
      complain(from.mask->where, "a mask of 0 always holds; write `any: true`");
    if (to.any && from.value)
      complain(from.value->where, "`any: true` and a value contradict each other");
    else if (!to.any && !from.value)
      complain(from.where, "the condition needs a value, or `any: true`");
    else if (!to.any && fits(*from.value, *reg, "the value") && (to.value & ~to.mask))
      complain(from.value->where, "the value has bits outside the mask: this can never hold");
    return to;
  }

  const InternalWindow *window(const raw::Text &name) {
    const InternalWindow *found = out.findWindow(name.value);
    if (!found) {
      std::vector<llvm::StringRef> names;
      for (const InternalWindow &candidate : out.windows)
        names.push_back(candidate.name);
      complain(name.where, "no window is named '" + name.value + "'" + words::suggestion(name.value, names));
    }
    return found;
  }

  /// "7" or "15:8"; false if it is neither, or its high bit is below its low one.
  static bool parseBits(llvm::StringRef text, unsigned &low, unsigned &high) {
    auto [first, second] = text.split(':');
    if (first.getAsInteger(10, high))
      return false;
    low = high;
    return (!text.contains(':') || !second.getAsInteger(10, low)) && low <= high;
  }

  const raw::Document &in;
  YamlComplaints &complaints;
  Description &out;
  llvm::StringMap<unsigned> registersByName;
  unsigned suggestions = 0;
};

/// The heading, the spaces and the registers. What follows in a document refers to them.
void resolveRegisters(const raw::Document &document, YamlComplaints &complaints, Description &out);

/// Layouts, queues and what concerns all queues. After the registers and windows.
void resolveQueues(const raw::Document &document, YamlComplaints &complaints, Description &out);

} // namespace tapeback
