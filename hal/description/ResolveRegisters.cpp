// The first half of resolving: heading, spaces, registers with their fields and aliases.
#include "hal/description/Checks.h"

#include <tuple>

namespace tapeback {
namespace {

class RegisterResolver : Checks {
public:
  RegisterResolver(const raw::Document &in, YamlComplaints &complaints, Description &out)
      : Checks(in, complaints, out) {}

  void run() {
    header();
    addSpaces();
    addRegisters();
    if (!complaints.any())
      addAliases();
    if (!complaints.any())
      addFlows();
    addForbidden();
  }

private:
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
      if (!parseBits(field.bits.value, described.low, described.high))
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

  /// `what` of that name lies there.
  std::string spaceOf(const std::optional<raw::Text> &space, const raw::Text &name, const char *what) {
    if (space) {
      if (!llvm::is_contained(out.spaces, space->value)) {
        std::vector<llvm::StringRef> names(out.spaces.begin(), out.spaces.end());
        complain(space->where,
                 "no space is named '" + space->value + "'" + words::suggestion(space->value, names));
      }
      return space->value;
    }
    if (out.spaces.size() == 1)
      return out.spaces.front();
    complain(name.where,
             llvm::Twine("the ") + what + " needs a space: the description does not have exactly one");
    return {};
  }

  void addForbidden() {
    if (!within(in.forbidden.size(), maxForbidden, "forbidden ranges"))
      return;
    llvm::StringSet<> seen;
    for (const raw::Range &from : in.forbidden) {
      ForbiddenRange to;
      // Both are named to --allow-register.
      if (checkUnique(from.name, "range", seen) && registersByName.count(from.name.value))
        complain(from.name.where, "a register has this name already");
      to.name = from.name.value;
      to.space = spaceOf(from.space, from.name, "range");
      to.first = from.first.value.value;
      to.last = from.last.value.value;
      if (to.last < to.first)
        complain(from.last.where, "the range ends before it begins");
      out.forbidden.push_back(std::move(to));
    }
  }

  /// A read that changes something, or whose value is of this run alone, is no turn of a poll.
  static bool mayBePolled(const RegisterDescription &reg) {
    switch (reg.cls) {
    case RegisterClass::ReadToClear:
    case RegisterClass::Fifo:
    case RegisterClass::Timestamp: return false;
    default: break;
    }
    return reg.access != RegisterAccess::WriteOnly && reg.policy != ReplayPolicy::SideEffect &&
           reg.policy != ReplayPolicy::Substitute && reg.policy != ReplayPolicy::MayHang;
  }

  uint64_t pollMask(const raw::Register &from, const RegisterDescription &to) {
    if (from.pollMask) {
      if (!mayBePolled(to))
        complain(from.pollMask->where, to.name + " is never polled: its class or policy says that a read "
                                                 "changes something or that its value is of one run only");
      else if (fits(*from.pollMask, to, "the poll-mask"))
        return from.pollMask->value.value;
    }
    if (!mayBePolled(to) || to.policy == ReplayPolicy::Ignore || to.cls == RegisterClass::Counter)
      return 0;
    return to.policy == ReplayPolicy::Mask ? to.compareMask : to.widthMask();
  }

  void addRegister(const raw::Register &from) {
    RegisterDescription to;
    to.name = from.name.value;
    to.doc = from.doc;
    checkProse(from.doc, "doc", from.name.where);
    to.space = spaceOf(from.space, from.name, "register");
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
    to.pollMask = pollMask(from, to);
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

  void addFlows() {
    for (size_t i = 0; i < out.registers.size(); ++i) {
      const raw::Register &from = in.registers[i];
      RegisterDescription &to = out.registers[i];
      if (!from.flowsInto.empty() && to.policy != ReplayPolicy::Substitute)
        complain(from.flowsInto.front().where, "flows-into needs `policy: substitute`");
      if (!within(from.flowsInto.size(), maxFields, "places that it flows into", from.name.where))
        continue;
      for (const raw::Flow &listed : from.flowsInto) {
        if (listed.reg.has_value() == (listed.layout || listed.field)) {
          complain(listed.where, "a value flows either into a register, or into a field of a layout");
          continue;
        }
        if (!listed.reg) { // Layouts come later.
          if (!listed.layout || !listed.field)
            complain(listed.where, "a value that flows into a command needs its layout and its field");
          else if (listed.bits)
            complain(listed.bits->where, "the field says which bits it has");
          continue;
        }
        RegisterDescription::Flow flow;
        flow.reg = reference(*listed.reg, Anything);
        const RegisterDescription &into = out.registers[flow.reg];
        flow.high = 8 * into.width - 1;
        if (listed.bits && !parseBits(listed.bits->value, flow.low, flow.high))
          complain(listed.bits->where, "bits are written as one number or HIGH:LOW, for example 7 or 15:8");
        else if (flow.high >= 8 * into.width)
          complain(listed.bits->where, "bit " + llvm::Twine(flow.high) + " lies outside the " +
                                           llvm::Twine(8 * into.width) + " bits of " + into.name);
        to.flowsInto.push_back(flow);
      }
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
};

} // namespace

void resolveRegisters(const raw::Document &document, YamlComplaints &complaints, Description &out) {
  RegisterResolver(document, complaints, out).run();
}

} // namespace tapeback
