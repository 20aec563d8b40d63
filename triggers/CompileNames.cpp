// What names mean: declared ones first, then fields of packets, then what the description knows.
#include "triggers/Compiler.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace tapeback::triggers {

const Description *Compiler::description() const {
  uint16_t device = program.triggers[current].device;
  return device < options.devices.size() ? options.devices[device].description : nullptr;
}

std::string Compiler::noDescription() const {
  return description() ? "" : "there is no description of the device: give one (--description)";
}

static uint32_t intern(StringMap<uint32_t> &indices, std::vector<std::string> &list, StringRef word) {
  auto [place, isNew] = indices.try_emplace(word, uint32_t(list.size()));
  if (isNew)
    list.push_back(word.str());
  return place->second;
}

uint32_t Compiler::text(StringRef word) {
  return intern(textIndices, program.texts, word);
}
uint32_t Compiler::eventIndex(StringRef name) {
  return intern(eventIndices, program.events, name);
}
uint32_t Compiler::spaceIndex(StringRef name) {
  return intern(spaceIndices, program.spaces, name);
}

uint32_t Compiler::place(const RegisterPlace &place) {
  program.places.push_back(place);
  return uint32_t(program.places.size() - 1);
}

static constexpr const char *functionNames[] = {
    "previous", "changed", "rose", "fell", "delta",   "interval", "wrapped", "regressed",
    "elapsed",  "running", "has",  "age",  "size",    "p50",      "p90",     "p99",
    "p999",     "mean",    "min",  "max",  "samples", "mapped",   "payload", "starts"};

std::vector<std::string> Compiler::knownNames() const {
  std::vector<std::string> all;
  for (const auto &entry : names)
    all.push_back(entry.first().str());
  llvm::sort(all);
  if (const Description *known = description()) {
    for (const RegisterDescription &reg : known->registers)
      all.push_back(reg.name);
    for (const CounterDescription &counter : known->counters)
      all.push_back(counter.name);
  }
  for (const PacketFieldName &field : packetFields())
    all.push_back(field.name);
  for (unsigned kind = 0; kind < packetKindCount; ++kind)
    all.push_back(packetKindName(PacketKind(kind)));
  return all;
}

Compiler::Declared *Compiler::declared(const Name &name, DeclarationSyntax::Kind kind, const char *what) {
  auto found = names.find(name.text);
  if (found != names.end() && found->second.kind == kind)
    return &found->second;
  std::vector<std::string> all;
  for (const auto &entry : names)
    if (entry.second.kind == kind)
      all.push_back(entry.first().str());
  llvm::sort(all);
  diagnostics.error(name.where, "there is no " + std::string(what) + " '" + name.text + "'",
                    suggestion(name.text, all, std::string(what) + "s"));
  return nullptr;
}

Typed Compiler::named(const Expression &e) {
  using Kind = DeclarationSyntax::Kind;
  Node node;
  node.where = e.where;
  Typed like;
  if (auto found = names.find(e.text); found != names.end()) {
    Declared &name = found->second;
    ++name.reads;
    switch (name.kind) {
    case Kind::Constant: return constant(name.value, e.where, name.isSigned);
    case Kind::Counter:
    case Kind::Flag:
    case Kind::Variable:
      node.op = NodeOp::Variable;
      node.a = name.index;
      like.isBool = name.kind == Kind::Flag;
      like.high = like.bits = bitsBelow(name.bits);
      return emit(node, like);
    case Kind::Timer:
      diagnostics.error(e.where, "'" + e.text + "' is a timer", "elapsed(" + e.text + ")");
      return {};
    default:
      diagnostics.error(e.where, "'" + e.text + "' is no number by itself",
                        name.kind == Kind::Table ? e.text + "[key], has(" + e.text + ", key)"
                                                 : "p99(" + e.text + "), mean(" + e.text + ") …");
      return {};
    }
  }
  for (const PacketFieldName &field : packetFields())
    if (e.text == field.name) {
      if (field.field == PacketField::Expired && !expiredAllowed) {
        diagnostics.error(e.where, "`expired` is the key that an `after … of TABLE` takes out",
                          "it is known in that rule's actions only");
        return {};
      }
      node.op = NodeOp::Field;
      node.a = uint32_t(field.field);
      like.isBool = field.isBool;
      unsigned bits = field.field == PacketField::Value ? valueBits : field.bits;
      if (!like.isBool)
        like.high = like.bits = field.field == PacketField::Width ? 8 : bitsBelow(bits);
      if (field.field == PacketField::Width)
        like.bits = 15;
      return emit(node, like);
    }
  unsigned shift = 0;
  uint64_t mask = 0;
  if (std::optional<uint32_t> slot = slotOf(e.text, "", e.where, shift, mask)) {
    node.op = NodeOp::Slot;
    node.a = *slot;
    node.b = shift;
    node.imm = mask;
    like.high = like.bits = mask;
    return emit(node, like);
  }
  std::string hint = noDescription();
  if (e.text == "name")
    hint = "name == \"…\"";
  else if (is_contained(functionNames, e.text))
    hint = "it wants arguments: " + e.text + "(…)";
  diagnostics.error(e.where, "nothing is named '" + e.text + "'",
                    hint.empty() ? suggestion(e.text, knownNames(), "there are") : hint);
  return {};
}

/// The slot of a register or counter that is named; nothing (and no complaint) if there is none of that name.
std::optional<uint32_t> Compiler::slotOf(StringRef name, StringRef field, SourceRange, unsigned &shift,
                                         uint64_t &mask) {
  const Description *known = description();
  if (!known)
    return std::nullopt;
  SlotDescription slot;
  slot.device = program.triggers[current].device;
  slot.name = name.str();
  shift = 0;
  if (const RegisterDescription *reg = known->findByName(name)) {
    slot.place = {spaceIndex(reg->space), reg->offset, reg->width};
    slot.widthBits = reg->width * 8;
    RegisterClass c = reg->cls;
    slot.keepsWrites = reg->access != RegisterAccess::ReadOnly && c != RegisterClass::W1C &&
                       c != RegisterClass::ReadToClear && c != RegisterClass::Fifo &&
                       c != RegisterClass::Counter && c != RegisterClass::Timestamp &&
                       c != RegisterClass::Identity;
    mask = bitsBelow(slot.widthBits);
    if (!field.empty()) {
      auto found = find_if(reg->fields, [&](const FieldDescription &f) { return f.name == field; });
      if (found == reg->fields.end())
        return std::nullopt;
      shift = found->low;
      mask = bitsBelow(found->high - found->low + 1);
    }
  } else {
    auto counter = find_if(known->counters, [&](const CounterDescription &c) { return c.name == name; });
    if (counter == known->counters.end() || !field.empty())
      return std::nullopt;
    slot.isCounter = true;
    slot.counter = uint64_t(counter - known->counters.begin());
    slot.widthBits = std::min(counter->widthBits, 64u);
    mask = bitsBelow(slot.widthBits);
  }
  std::string key = std::to_string(slot.device) + "/" + slot.name;
  auto [entry, isNew] = slotIndices.try_emplace(key, uint32_t(program.slots.size()));
  if (isNew) {
    if (!slot.isCounter)
      place(slot.place); // So that what waits for a change of it is asked at its place only.
    program.slots.push_back(std::move(slot));
  }
  return entry->second;
}

Typed Compiler::member(const Expression &e) {
  const Description *known = description();
  Node node;
  node.where = e.where;
  Typed like;
  unsigned shift = 0;
  uint64_t mask = 0;
  if (known && known->findByName(e.text)) {
    if (std::optional<uint32_t> slot = slotOf(e.text, e.member.text, e.where, shift, mask)) {
      node.op = NodeOp::Slot;
      node.a = *slot;
      node.b = shift;
      node.imm = mask;
      like.high = like.bits = mask;
      return emit(node, like);
    }
    std::vector<std::string> fields;
    for (const FieldDescription &field : known->findByName(e.text)->fields)
      fields.push_back(field.name);
    diagnostics.error(e.member.where, "register " + e.text + " has no field '" + e.member.text + "'",
                      suggestion(e.member.text, fields, "its fields"));
    return {};
  }
  if (known)
    for (const LayoutDescription &layout : known->layouts)
      for (const EntryForm &form : layout.forms) {
        if (form.name != e.text)
          continue;
        const EntryField *field = form.find(e.member.text);
        if (!field) {
          std::vector<std::string> fields;
          for (const EntryField &candidate : form.fields)
            fields.push_back(candidate.name);
          diagnostics.error(e.member.where, e.text + " has no field '" + e.member.text + "'",
                            suggestion(e.member.text, fields, "its fields"));
          return {};
        }
        program.usesEntries = true;
        node.op = NodeOp::EntryField;
        node.a = uint32_t(program.entryFields.size());
        program.entryFields.push_back({{&layout, &form}, field});
        like.isSigned = field->isSigned;
        if (!field->isSigned)
          like.high = like.bits = field->mask();
        return emit(node, like);
      }
  std::vector<std::string> all;
  if (known) {
    for (const LayoutDescription &layout : known->layouts)
      for (const EntryForm &form : layout.forms)
        all.push_back(form.name);
    for (const RegisterDescription &reg : known->registers)
      if (!reg.fields.empty())
        all.push_back(reg.name);
  }
  diagnostics.error(e.where, "no register and no command is named '" + e.text + "'",
                    known ? suggestion(e.text, all, "with fields there are") : noDescription());
  return {};
}

/// A function of a register, a register's field or a counter.
Typed Compiler::slotNode(NodeOp op, const Expression &argument) {
  Node node;
  node.op = op;
  unsigned shift = 0;
  uint64_t mask = 0;
  std::optional<uint32_t> slot;
  if (argument.kind == ExpressionKind::Name)
    slot = slotOf(argument.text, "", argument.where, shift, mask);
  else if (argument.kind == ExpressionKind::Member)
    slot = slotOf(argument.text, argument.member.text, argument.where, shift, mask);
  if (!slot) {
    diagnostics.error(argument.where, "this is no register, field or counter of the device",
                      description() ? suggestion(argument.text, knownNames(), "there are") : noDescription());
    return {};
  }
  node.a = *slot;
  node.b = shift;
  node.imm = mask;
  Typed like;
  like.isBool = op == NodeOp::Changed || op == NodeOp::Rose || op == NodeOp::Fell || op == NodeOp::Wrapped ||
                op == NodeOp::Regressed;
  if (op == NodeOp::Previous || op == NodeOp::Delta)
    like.high = like.bits = op == NodeOp::Delta ? bitsBelow(program.slots[*slot].widthBits) : mask;
  return emit(node, like);
}

Typed Compiler::call(const Expression &e) {
  using Kind = DeclarationSyntax::Kind;
  enum class Takes { Slot, Timer, Table, TableKey, Statistic, Two, Payload, Text };
  struct Function {
    const char *name;
    Takes takes;
    NodeOp op;
    bool isBool;
    uint64_t imm;
  };
  static constexpr Function all[] = {{"previous", Takes::Slot, NodeOp::Previous, false, 0},
                                     {"changed", Takes::Slot, NodeOp::Changed, true, 0},
                                     {"rose", Takes::Slot, NodeOp::Rose, true, 0},
                                     {"fell", Takes::Slot, NodeOp::Fell, true, 0},
                                     {"delta", Takes::Slot, NodeOp::Delta, false, 0},
                                     {"interval", Takes::Slot, NodeOp::Interval, false, 0},
                                     {"wrapped", Takes::Slot, NodeOp::Wrapped, true, 0},
                                     {"regressed", Takes::Slot, NodeOp::Regressed, true, 0},
                                     {"elapsed", Takes::Timer, NodeOp::Elapsed, false, 0},
                                     {"running", Takes::Timer, NodeOp::Running, true, 0},
                                     {"has", Takes::TableKey, NodeOp::Has, true, 0},
                                     {"age", Takes::TableKey, NodeOp::Age, false, 0},
                                     {"size", Takes::Table, NodeOp::Size, false, 0},
                                     {"p50", Takes::Statistic, NodeOp::Quantile, false, 5000},
                                     {"p90", Takes::Statistic, NodeOp::Quantile, false, 9000},
                                     {"p99", Takes::Statistic, NodeOp::Quantile, false, 9900},
                                     {"p999", Takes::Statistic, NodeOp::Quantile, false, 9990},
                                     {"mean", Takes::Statistic, NodeOp::Mean, false, 0},
                                     {"min", Takes::Statistic, NodeOp::Minimum, false, 0},
                                     {"max", Takes::Statistic, NodeOp::Maximum, false, 0},
                                     {"samples", Takes::Statistic, NodeOp::Samples, false, 0},
                                     {"mapped", Takes::Two, NodeOp::Mapped, true, 0},
                                     {"payload", Takes::Payload, NodeOp::Payload, false, 0},
                                     {"starts", Takes::Text, NodeOp::NameStarts, true, 0}};
  static_assert(std::size(all) == std::size(functionNames));
  const Function *function = find_if(all, [&](const Function &f) { return e.text == f.name; });
  if (function == std::end(all)) {
    diagnostics.error(e.where, "there is no function '" + e.text + "'",
                      suggestion(e.text,
                                 std::vector<std::string>(std::begin(functionNames), std::end(functionNames)),
                                 "functions"));
    return {};
  }
  bool two = function->takes == Takes::Two || function->takes == Takes::Payload ||
             function->takes == Takes::TableKey;
  if (e.arguments.size() != (two ? 2 : 1)) {
    diagnostics.error(e.where, e.text + " takes " + (two ? "two arguments" : "one argument"));
    return {};
  }
  const Expression &first = *e.arguments[0];
  if (function->takes == Takes::Slot) {
    Typed result = slotNode(function->op, first);
    if (result.valid())
      program.nodes[result.node].where = e.where;
    return result;
  }
  Node node;
  node.op = function->op;
  node.imm = function->imm;
  node.where = e.where;
  Typed like;
  like.isBool = function->isBool;
  switch (function->takes) {
  case Takes::Timer:
  case Takes::Table:
  case Takes::TableKey:
  case Takes::Statistic: {
    Kind kind = function->takes == Takes::Timer       ? Kind::Timer
                : function->takes == Takes::Statistic ? Kind::Statistic
                                                      : Kind::Table;
    const char *what = kind == Kind::Timer ? "timer" : kind == Kind::Statistic ? "statistic" : "table";
    Declared *name = declared({first.text, first.where}, kind, what);
    if (!name)
      return {};
    ++name->reads;
    node.a = name->index;
    if (two) {
      Typed key = number(*e.arguments[1]);
      if (!key.valid())
        return {};
      node.b = key.node;
    }
    if (function->op == NodeOp::Size)
      like.high = program.tables[name->index].size;
    break;
  }
  case Takes::Two: {
    Typed a = number(first), b = number(*e.arguments[1]);
    if (!a.valid() || !b.valid())
      return {};
    node.a = a.node;
    node.b = b.node;
    program.usesMappings = true;
    break;
  }
  case Takes::Payload: {
    Typed offset = number(first), width = number(*e.arguments[1]);
    if (!offset.valid() || !width.valid())
      return {};
    if (!width.constant() || (width.low != 1 && width.low != 2 && width.low != 4 && width.low != 8)) {
      diagnostics.error(e.arguments[1]->where, "a number in the payload has 1, 2, 4 or 8 bytes");
      return {};
    }
    node.a = offset.node;
    node.b = uint32_t(width.low);
    like.high = like.bits = bitsBelow(unsigned(width.low) * 8);
    break;
  }
  default:
    if (first.kind != ExpressionKind::Text) {
      diagnostics.error(first.where, "starts takes a text", "starts(\"kws/\")");
      return {};
    }
    node.a = text(first.text);
    break;
  }
  return emit(node, like);
}

Typed Compiler::index(const Expression &e) {
  Declared *table = declared({e.text, e.where}, DeclarationSyntax::Kind::Table, "table");
  Typed key = number(*e.arguments[0]);
  if (!table || !key.valid())
    return {};
  ++table->reads;
  Node node;
  node.op = NodeOp::Lookup;
  node.a = table->index;
  node.b = key.node;
  node.where = e.where;
  return emit(node, {});
}

/// Where the registers are that an event is about; false if it names none that there is.
bool Compiler::placesOf(const Expression &e, std::vector<RegisterPlace> &places) {
  const EventOperand &operand = e.operand;
  const Description *known = description();
  if (operand.kind == EventOperand::Kind::Place) {
    places.push_back({spaceIndex(operand.name.text), operand.offset, 0});
    return true;
  }
  auto add = [&](const RegisterDescription &reg) {
    places.push_back({spaceIndex(reg.space), reg.offset, reg.width});
  };
  if (operand.kind == EventOperand::Kind::Name) {
    if (const RegisterDescription *reg = known ? known->findByName(operand.name.text) : nullptr) {
      add(*reg);
      return true;
    }
    std::vector<std::string> all;
    if (known)
      for (const RegisterDescription &reg : known->registers)
        all.push_back(reg.name);
    diagnostics.error(operand.name.where, "the device has no register '" + operand.name.text + "'",
                      known ? suggestion(operand.name.text, all, "registers")
                            : noDescription() + ", or write SPACE+OFFSET");
    return false;
  }
  if (!known) {
    diagnostics.error(operand.name.where, "classes and policies need a description", noDescription());
    return false;
  }
  std::vector<std::string> words;
  for (unsigned c = 0; c <= unsigned(RegisterClass::AddressHigh); ++c)
    words.push_back(registerClassName(RegisterClass(c)));
  for (unsigned p = 0; p <= unsigned(ReplayPolicy::Forbidden); ++p)
    words.push_back(replayPolicyName(ReplayPolicy(p)));
  if (!is_contained(words, operand.name.text)) {
    diagnostics.error(operand.name.where, "there is no register class or policy '" + operand.name.text + "'",
                      suggestion(operand.name.text, words, "classes and policies"));
    return false;
  }
  for (const RegisterDescription &reg : known->registers)
    if (reg.aliasOf.empty() && (registerClassName(reg.cls) == operand.name.text ||
                                replayPolicyName(reg.policy) == operand.name.text))
      add(reg);
  // Such a trigger fits many devices: that this one has no such register is worth a word and no more.
  if (places.empty())
    diagnostics.warning(operand.name.where, "the device has no register that is " + operand.name.text);
  return true;
}

Typed Compiler::registerEvent(const Expression &e, uint64_t kinds) {
  Node node;
  node.where = e.where;
  node.imm = kinds;
  Typed like;
  like.isBool = true;
  if (e.operand.kind == EventOperand::Kind::None) {
    node.op = NodeOp::KindIs;
    return emit(node, like);
  }
  if (e.operand.kind == EventOperand::Kind::Text) {
    diagnostics.error(e.operand.name.where, "registers are named without quotes");
    return {};
  }
  std::vector<RegisterPlace> places;
  if (!placesOf(e, places))
    return {};
  node.op = NodeOp::PlaceIs;
  node.a = uint32_t(program.places.size());
  node.b = uint32_t(places.size());
  unsigned bits = 0;
  for (const RegisterPlace &one : places) {
    place(one);
    bits = std::max(bits, one.width ? one.width * 8 : 64);
  }
  valueBits = std::min(valueBits, bits ? bits : 64);
  const Description *known = description();
  if (known && e.operand.kind == EventOperand::Kind::Name) {
    const RegisterDescription *reg = known->findByName(e.operand.name.text);
    bool writes = kinds == kindBit(PacketKind::RegisterWrite);
    bool reads = !(kinds & kindBit(PacketKind::RegisterWrite));
    if ((writes && reg->access == RegisterAccess::ReadOnly) ||
        (reads && reg->access == RegisterAccess::WriteOnly))
      diagnostics.warning(e.where, "the register is " + std::string(writes ? "read" : "write") + "-only",
                          "only a program with a fault does this");
  }
  return emit(node, like);
}

Typed Compiler::event(const Expression &e) {
  const EventOperand &operand = e.operand;
  Node node;
  node.where = e.where;
  Typed like;
  like.isBool = true;
  uint64_t read = kindBit(PacketKind::RegisterRead), write = kindBit(PacketKind::RegisterWrite),
           poll = kindBit(PacketKind::Poll);
  uint64_t access = e.text == "read" || e.text == "register-read"     ? read
                    : e.text == "write" || e.text == "register-write" ? write
                    : e.text == "poll"                                ? poll
                    : e.text == "access"                              ? read | write | poll
                                                                      : 0;
  if (access)
    return registerEvent(e, access);
  if (e.text == "raised") {
    if (operand.kind != EventOperand::Kind::Name) {
      diagnostics.error(e.where, "`raised` wants the event's name");
      return {};
    }
    node.op = NodeOp::Raised;
    node.a = eventIndex(operand.name.text);
    return emit(node, like);
  }
  for (unsigned kind = 0; kind < packetKindCount; ++kind)
    if (e.text == packetKindName(PacketKind(kind)))
      node.imm = kindBit(PacketKind(kind));
  node.op = NodeOp::KindIs;
  bool isNamed = node.imm & (kindBit(PacketKind::Marker) | kindBit(PacketKind::SpanBegin) |
                             kindBit(PacketKind::Oracle) | kindBit(PacketKind::Open));
  if (operand.kind == EventOperand::Kind::None)
    return emit(node, like);
  if (operand.kind == EventOperand::Kind::Text && isNamed) {
    node.op = NodeOp::NameIs;
    node.a = text(operand.name.text);
    return emit(node, like);
  }
  if (operand.kind == EventOperand::Kind::Name && e.text == "submit") {
    const Description *known = description();
    std::vector<std::string> all;
    if (known)
      for (const QueueDescription &queue : known->queues)
        for (const EntryForm &form : known->layouts[queue.layout].forms) {
          if (form.name == operand.name.text) {
            node.op = NodeOp::FormIs;
            node.a = uint32_t(program.forms.size());
            program.forms.push_back({&known->layouts[queue.layout], &form});
            program.usesEntries = true;
            return emit(node, like);
          }
          all.push_back(form.name);
        }
    diagnostics.error(operand.name.where, "no command is named '" + operand.name.text + "'",
                      known ? suggestion(operand.name.text, all, "commands") : noDescription());
    return {};
  }
  diagnostics.error(operand.name.where, "nothing can stand behind '" + e.text + "' here",
                    isNamed ? "its name, in double quotes" : "");
  return {};
}

} // namespace tapeback::triggers
