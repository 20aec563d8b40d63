// From raw::Document to Description: words become enumerators, names become indices, and everything that
// Description.h promises is checked. A mistake is complained about where it stands, and the rest is checked
// on.
#include "hal/description/Raw.h"
#include "hal/description/Words.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace tapeback {
namespace {

constexpr size_t maxRegisters = 65536, maxFields = 64, maxActivities = 1024, maxWindows = 1024,
                 maxSpaces = 64;
constexpr size_t maxListed = 4096; // Any other list at the top.
constexpr size_t maxPerActivity = 64;
constexpr size_t maxName = 64, maxDoc = 4096;

/// Why a register may not stand in some place.
enum Need : unsigned {
  Anything = 0,
  Readable = 1 << 0,
  Writable = 1 << 1,
  HarmlessToRead = 1 << 2, ///< Reading it changes nothing.
  MayBeWritten = 1 << 3,   ///< By a replay, without the user naming it.
};

class Resolver {
public:
  Resolver(const raw::Document &in, YamlComplaints &complaints) : in(in), complaints(complaints) {}

  Description run() {
    header();
    addSpaces();
    addRegisters();
    if (complaints.any()) // What follows refers to registers, and would only echo.
      return std::move(out);
    addAliases();
    addWindowNames();
    addActivities();
    finishWindows();
    addInterrupts();
    addFingerprint();
    addRestore();
    addPostMortem();
    addCounters();
    return std::move(out);
  }

private:
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

  void header() {
    if (in.grammar.value.value != 1)
      complain(in.grammar.where, "this is version " + llvm::Twine(in.grammar.value.value) +
                                     " of the grammar; this tapeback reads version 1");
    checkName(in.name, "device");
    checkProse(in.doc, "doc", in.name.where);
    checkProse(in.version, "version", in.name.where);
    out.name = in.name.value;
    out.version = in.version;
    out.doc = in.doc;
    if (in.dmaMask)
      out.dmaMask = in.dmaMask->value.value;
    static constexpr words::Word<bool> methods[] = {
        {"default", true}, {"function", true}, {"bus", true}, {"power", true}};
    if (in.resetMethod && wordOr<bool>(in.resetMethod, methods, "reset method", false))
      out.resetMethod = in.resetMethod->value;
  }

  void addSpaces() {
    if (!within(in.spaces.size(), maxSpaces, "spaces"))
      return;
    llvm::StringSet<> seen;
    for (const raw::Text &space : in.spaces) {
      if (space.value == "memory")
        complain(space.where, "'memory' is device-visible memory and no register space");
      else if (checkUnique(space, "space", seen))
        out.spaces.push_back(space.value);
    }
  }

  void addFields(const raw::Register &from, RegisterDescription &to) {
    if (!within(from.fields.size(), maxFields, "fields", from.name.where))
      return;
    llvm::StringSet<> seen;
    uint64_t taken = 0;
    for (const raw::Field &field : from.fields) {
      FieldDescription described;
      described.name = field.name.value;
      described.doc = field.doc;
      checkUnique(field.name, "field", seen);
      checkProse(field.doc, "doc", field.name.where);
      auto [first, second] = llvm::StringRef(field.bits.value).split(':');
      bool good = !first.getAsInteger(10, described.high);
      described.low = described.high;
      if (llvm::StringRef(field.bits.value).contains(':'))
        good = good && !second.getAsInteger(10, described.low);
      if (!good || described.low > described.high)
        complain(field.bits.where, "bits are written as one number or HIGH:LOW, for example 7 or 15:8");
      else if (described.high >= 8 * to.width)
        complain(field.bits.where, "bit " + llvm::Twine(described.high) + " lies outside the " +
                                       llvm::Twine(8 * to.width) + " bits of " + to.name);
      else if (described.mask() & taken)
        complain(field.bits.where, "the field overlaps another one of " + to.name);
      else
        taken |= described.mask();
      to.fields.push_back(std::move(described));
    }
  }

  std::string spaceOf(const raw::Register &from) {
    if (from.space) {
      if (!llvm::is_contained(out.spaces, from.space->value)) {
        std::vector<llvm::StringRef> names(out.spaces.begin(), out.spaces.end());
        complain(from.space->where, "no space is named '" + from.space->value + "'" +
                                        words::suggestion(from.space->value, names));
      }
      return from.space->value;
    }
    if (out.spaces.size() == 1)
      return out.spaces.front();
    complain(from.name.where, "the register needs a space: the description does not have exactly one");
    return {};
  }

  void addRegister(const raw::Register &from) {
    RegisterDescription to;
    to.name = from.name.value;
    to.doc = from.doc;
    checkProse(from.doc, "doc", from.name.where);
    to.space = spaceOf(from);
    to.offset = from.offset.value.value;
    uint64_t width = from.width ? from.width->value.value : 4;
    if (width != 1 && width != 2 && width != 4 && width != 8) {
      complain(from.width->where, "a width is 1, 2, 4 or 8 bytes");
      width = 4;
    }
    to.width = unsigned(width);
    if (to.offset > ~uint64_t(0) - (to.width - 1))
      complain(from.offset.where, "the register reaches past the end of the address space");
    to.access = wordOr(from.access, words::accesses(), "access", RegisterAccess::ReadWrite);
    to.cls = wordOr(from.cls, words::classes(), "class", RegisterClass::Stable);
    to.policy = wordOr(from.policy, words::policies(), "policy", words::defaultPolicy(to.cls));
    if (from.compareMask) {
      if (to.policy != ReplayPolicy::Mask)
        complain(from.compareMask->where, "a compare-mask needs `policy: mask`");
      else if (fits(*from.compareMask, to, "the compare-mask"))
        to.compareMask = from.compareMask->value.value;
    } else if (to.policy == ReplayPolicy::Mask) {
      complain(from.policy->where, "`policy: mask` needs a compare-mask");
    }
    if (from.reset && fits(*from.reset, to, "the reset value"))
      to.reset = from.reset->value.value;
    if (from.aliasOf)
      to.aliasOf = from.aliasOf->value;
    addFields(from, to);
    registersByName[to.name] = unsigned(out.registers.size());
    out.registers.push_back(std::move(to));
  }

  void addRegisters() {
    if (!within(in.registers.size(), maxRegisters, "registers"))
      return;
    llvm::StringSet<> seen;
    out.registers.reserve(in.registers.size());
    for (const raw::Register &from : in.registers) {
      checkUnique(from.name, "register", seen);
      addRegister(from);
    }
    if (!complaints.any())
      checkOverlaps();
  }

  void checkOverlaps() {
    std::vector<unsigned> order;
    for (unsigned i = 0; i < out.registers.size(); ++i)
      if (out.registers[i].aliasOf.empty())
        order.push_back(i);
    auto place = [&](unsigned i) { return std::tie(out.registers[i].space, out.registers[i].offset); };
    llvm::stable_sort(order, [&](unsigned a, unsigned b) { return place(a) < place(b); });
    for (size_t i = 1; i < order.size(); ++i) {
      const RegisterDescription &below = out.registers[order[i - 1]], &above = out.registers[order[i]];
      if (below.space == above.space && above.offset - below.offset < below.width)
        complain(in.registers[order[i]].offset.where,
                 above.name + " overlaps " + below.name +
                     "; if it is another view of it, say `alias-of: " + below.name + "`");
    }
  }

  void addAliases() {
    for (size_t i = 0; i < out.registers.size(); ++i) {
      const RegisterDescription &alias = out.registers[i];
      if (alias.aliasOf.empty())
        continue;
      const raw::Text &name = *in.registers[i].aliasOf;
      const RegisterDescription &whole = out.registers[reference(name, Anything)];
      if (complaints.any())
        continue;
      if (alias.space != whole.space || alias.offset < whole.offset || alias.width > whole.width ||
          alias.offset - whole.offset > whole.width - alias.width)
        complain(name.where, alias.name + " does not lie within " + whole.name);
    }
  }

  void addWindowNames() {
    if (!within(in.windows.size(), maxWindows, "windows"))
      return;
    llvm::StringSet<> seen;
    for (const raw::Window &from : in.windows) {
      checkUnique(from.name, "window", seen);
      checkProse(from.doc, "doc", from.name.where);
      InternalWindow to;
      to.name = from.name.value;
      to.doc = from.doc;
      to.base = from.base ? from.base->value.value : 0;
      to.size = from.size.value.value;
      if (to.size == 0)
        complain(from.size.where, "a window has at least one byte");
      else if (to.base > ~uint64_t(0) - (to.size - 1))
        complain(from.size.where, "the window reaches past the end of the address space");
      to.maxTransfer = from.maxTransfer ? from.maxTransfer->value.value : to.size;
      if (to.maxTransfer == 0 || to.maxTransfer > to.size)
        complain(from.maxTransfer ? from.maxTransfer->where : from.size.where,
                 "max-transfer is between 1 and the window's size");
      if (from.reset) {
        if (from.reset->value.value > 0xff)
          complain(from.reset->where, "a window's reset value is one byte, which fills it");
        to.reset = uint8_t(from.reset->value.value);
      }
      out.windows.push_back(std::move(to));
    }
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

  TransferDescription transfer(const raw::Transfer &from, const ActivityDescription &activity) {
    TransferDescription to;
    to.when.reg = activity.starts.reg;
    to.when.any = true;
    if (from.when) {
      to.when = condition(*from.when, Writable);
      if (to.when.reg != activity.starts.reg)
        complain(from.when->reg.where, "a transfer's condition is on the value written to " +
                                           out.registers[activity.starts.reg].name +
                                           ", which starts the activity");
    }
    to.toDevice = word(from.direction, words::directions(), "direction", true);
    to.hostAddress = reference(from.hostAddress, Writable);
    to.deviceAddress = reference(from.deviceAddress, Writable);
    to.count = reference(from.count, Writable);
    if (from.window && window(*from.window))
      to.window = from.window->value;
    return to;
  }

  void addActivities() {
    if (!within(in.activities.size(), maxActivities, "activities"))
      return;
    llvm::StringSet<> seen;
    for (const raw::Activity &from : in.activities) {
      checkUnique(from.name, "activity", seen);
      ActivityDescription to;
      to.name = from.name.value;
      to.starts = condition(from.starts, Writable);
      if (from.done.empty())
        complain(from.name.where, "an activity needs a condition by which its end is seen");
      if (!within(from.done.size(), maxPerActivity, "conditions", from.name.where) ||
          !within(from.transfers.size(), maxPerActivity, "transfers", from.name.where))
        continue;
      for (const raw::Condition &done : from.done)
        to.done.push_back(condition(done, Readable));
      for (const raw::Transfer &moved : from.transfers)
        to.transfers.push_back(transfer(moved, to));
      out.activities.push_back(std::move(to));
    }
  }

  bool moves(llvm::StringRef windowName, bool toDevice, std::optional<llvm::StringRef> activityName) const {
    return llvm::any_of(out.activities, [&](const ActivityDescription &activity) {
      return (!activityName || activity.name == *activityName) &&
             llvm::any_of(activity.transfers, [&](const TransferDescription &moved) {
               return moved.window == windowName && moved.toDevice == toDevice;
             });
    });
  }

  void finishWindows() {
    for (size_t i = 0; i < out.windows.size() && i < in.windows.size(); ++i) {
      const std::optional<raw::Text> &readBack = in.windows[i].readBack;
      if (!readBack)
        continue;
      std::vector<llvm::StringRef> names;
      for (const ActivityDescription &activity : out.activities)
        names.push_back(activity.name);
      if (!llvm::is_contained(names, readBack->value))
        complain(readBack->where, "no activity is named '" + readBack->value + "'" +
                                      words::suggestion(readBack->value, names));
      else if (!moves(out.windows[i].name, false, readBack->value))
        complain(readBack->where, "activity '" + readBack->value +
                                      "' has no from-device transfer of window '" + out.windows[i].name +
                                      "'");
      out.windows[i].readBack = readBack->value;
    }
  }

  void addInterrupts() {
    if (!within(in.interrupts.size(), maxListed, "interrupts"))
      return;
    llvm::StringSet<> seen;
    std::vector<uint32_t> vectors;
    for (const raw::Interrupt &from : in.interrupts) {
      checkUnique(from.name, "interrupt", seen);
      InterruptDescription to;
      to.name = from.name.value;
      to.vector = uint32_t(from.vector.value.value);
      if (from.vector.value.value >= maxListed)
        complain(from.vector.where, "a vector is below " + llvm::Twine(maxListed));
      else if (llvm::is_contained(vectors, to.vector))
        complain(from.vector.where, "a second interrupt with vector " + llvm::Twine(to.vector));
      vectors.push_back(to.vector);
      if (from.cause)
        to.cause = condition(*from.cause, Readable);
      out.interrupts.push_back(std::move(to));
    }
  }

  void addFingerprint() {
    if (!within(in.fingerprint.size(), maxListed, "fingerprint entries"))
      return;
    for (const raw::Fingerprint &from : in.fingerprint) {
      FingerprintEntry to;
      to.reg = reference(from.reg, Readable | HarmlessToRead);
      if (out.registers.empty())
        continue; // Already complained about.
      const RegisterDescription &reg = out.registers[to.reg];
      to.mask = from.mask ? from.mask->value.value : reg.widthMask();
      if (from.mask)
        fits(*from.mask, reg, "the mask");
      if (from.value) {
        to.value = from.value->value.value;
        if (fits(*from.value, reg, "the value") && (*to.value & ~to.mask))
          complain(from.value->where, "the value has bits outside the mask: this can never hold");
      }
      out.fingerprint.push_back(to);
    }
  }

  void addRestore() {
    out.hasRestore = in.restore.has_value();
    if (!in.restore || !within(in.restore->size(), maxRegisters, "restore steps"))
      return;
    for (const raw::Step &from : *in.restore) {
      RestoreStep to;
      if (from.reg.has_value() == from.window.has_value()) {
        complain(from.where, "a restore step has either a register or a window");
      } else if (from.reg) {
        to.reg = reference(*from.reg, Writable | MayBeWritten | HarmlessToRead);
      } else if (window(*from.window)) {
        to.kind = RestoreStep::Kind::Window;
        to.window = from.window->value;
        if (!moves(to.window, true, std::nullopt))
          complain(from.window->where,
                   "no activity has a to-device transfer that could fill window '" + to.window + "'");
      }
      out.restore.push_back(std::move(to));
    }
  }

  void addPostMortem() {
    if (!within(in.postMortem.size(), maxListed, "post-mortem registers"))
      return;
    for (const raw::Text &name : in.postMortem)
      out.postMortem.push_back(reference(name, Readable));
  }

  void addCounters() {
    if (!within(in.counters.size(), maxListed, "counters"))
      return;
    static constexpr words::Word<bool> classes[] = {
        {"compute", true}, {"data-movement", true}, {"synchronisation", true}, {"other", true}};
    llvm::StringSet<> seen;
    for (const raw::Counter &from : in.counters) {
      checkUnique(from.name, "counter", seen);
      CounterDescription to;
      to.name = from.name.value;
      to.reg = reference(from.reg, Readable);
      if (from.unit && checkName(*from.unit, "unit"))
        to.unit = from.unit->value;
      wordOr<bool>(from.cls, classes, "counter class", true);
      to.cls = from.cls ? from.cls->value : "other";
      unsigned bits = out.registers.empty() ? 64 : 8 * out.registers[to.reg].width;
      uint64_t width = from.widthBits ? from.widthBits->value.value : bits;
      if (width == 0 || width > bits)
        complain(from.widthBits ? from.widthBits->where : from.reg.where,
                 "width-bits is between 1 and the register's " + llvm::Twine(bits));
      to.widthBits = unsigned(width);
      to.exact = !from.exact || from.exact->value;
      out.counters.push_back(std::move(to));
    }
  }

  const raw::Document &in;
  YamlComplaints &complaints;
  Description out;
  llvm::StringMap<unsigned> registersByName;
  unsigned suggestions = 0;
};

} // namespace

Description resolveDescription(const raw::Document &document, YamlComplaints &complaints) {
  return Resolver(document, complaints).run();
}

} // namespace tapeback
