// The last part of resolving: layouts of entries in host memory, queues of them, and what concerns all
// queues.
#include "hal/description/Checks.h"

#include <tuple>

namespace tapeback {
namespace {

class QueueResolver : Checks {
public:
  QueueResolver(const raw::Document &in, YamlComplaints &complaints, Description &out)
      : Checks(in, complaints, out) {}

  void run() {
    addLayouts();
    if (!complaints.any()) { // Both refer to layouts.
      addQueues();
      addFlows();
    }
    addConditions(in.idle, out.idle, "idle conditions", Readable);
    addConditions(in.resets, out.resets, "reset conditions", Writable);
    addConditions(in.handOver, out.handOver, "hand-over conditions", Writable);
  }

private:
  /// Where in an entry, of which the whole field has to lie in `size` bytes.
  void place(EntryField &to, const raw::Number &offset, const std::optional<raw::Number> &width,
             const std::optional<raw::Text> &bits, unsigned size) {
    uint64_t bytes = width ? width->value.value : 4;
    if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) {
      complain(width->where, "a width is 1, 2, 4 or 8 bytes");
      bytes = 1;
    }
    to.width = unsigned(bytes);
    if (offset.value.value > size || size - offset.value.value < bytes)
      complain(offset.where, "the field does not lie in the " + llvm::Twine(size) + " bytes of the entry");
    else
      to.offset = unsigned(offset.value.value);
    to.high = 8 * to.width - 1;
    if (!bits)
      return;
    unsigned low = 0, high = 0;
    if (!parseBits(bits->value, low, high))
      complain(bits->where, "bits are written as one number or HIGH:LOW, for example 7 or 15:8");
    else if (high >= 8 * to.width)
      complain(bits->where, "bit " + llvm::Twine(high) + " lies outside the " + llvm::Twine(8 * to.width) +
                                " bits of the field");
    else
      std::tie(to.low, to.high) = std::pair(low, high);
  }

  EntryField entryField(const raw::EntryField &from, unsigned size, llvm::StringSet<> &seen) {
    EntryField to;
    checkUnique(from.name, "field", seen);
    checkProse(from.doc, "doc", from.name.where);
    to.name = from.name.value;
    to.doc = from.doc;
    to.isSigned = from.isSigned && from.isSigned->value;
    to.address = from.address && from.address->value;
    to.hex = from.hex && from.hex->value;
    place(to, from.offset, from.width, from.bits, size);
    if (to.address && (to.isSigned || from.bits || to.width < 4))
      complain(from.address->where, "an address is a whole field of 4 or 8 bytes, without a sign");
    return to;
  }

  /// Which kind of field is meant: mixing up an address and a count is the likely mistake.
  enum class Wanted { Address, NoAddress };
  unsigned field(const raw::Text &name, const EntryForm &form, Wanted wanted) {
    const EntryField *found = form.find(name.value);
    if (!found) {
      std::vector<llvm::StringRef> names;
      if (++suggestions <= 8)
        for (const EntryField &candidate : form.fields)
          names.push_back(candidate.name);
      complain(name.where,
               form.name + " has no field named '" + name.value + "'" + words::suggestion(name.value, names));
      return 0;
    }
    if (wanted == Wanted::Address && !found->address)
      complain(name.where, "field '" + name.value + "' is used as a host address: say `address: true` there");
    else if (wanted == Wanted::NoAddress && found->address)
      complain(name.where, "field '" + name.value + "' is a host address and cannot be used here");
    return unsigned(found - form.fields.data());
  }

  EntryCondition entryCondition(const raw::EntryCondition &from, const EntryForm &form) {
    EntryCondition to;
    to.field = field(from.field, form, Wanted::NoAddress);
    if (form.fields.empty())
      return to; // Already complained about.
    // Of a signed field, the value is compared as it is printed: sign-extended.
    const EntryField &described = form.fields[to.field];
    uint64_t possible = described.isSigned ? ~uint64_t(0) : described.mask();
    to.mask = from.mask ? from.mask->value.value : possible;
    to.value = from.value.value.value;
    if (from.mask && to.mask == 0)
      complain(from.mask->where, "a mask of 0 always holds; leave the condition out");
    else if (from.mask && (to.mask & ~possible))
      complain(from.mask->where, "the mask has bits outside the field");
    else if (to.value & ~to.mask)
      complain(from.value.where, "the value has bits outside the mask: this can never hold");
    return to;
  }

  EntryTransfer entryTransfer(const raw::EntryTransfer &from, const EntryForm &form) {
    EntryTransfer to;
    if (from.when)
      to.when = entryCondition(*from.when, form);
    to.toDevice = word(from.direction, words::directions(), "direction", true);
    to.hostAddress = field(from.hostAddress, form, Wanted::Address);
    to.rowBytes = field(from.rowBytes, form, Wanted::NoAddress);
    auto optional = [&](const std::optional<raw::Text> &name, std::optional<unsigned> &index) {
      if (name)
        index = field(*name, form, Wanted::NoAddress);
    };
    optional(from.rows, to.rows);
    optional(from.hostStride, to.hostStride);
    optional(from.deviceAddress, to.deviceAddress);
    optional(from.deviceStride, to.deviceStride);
    if (from.rows && !from.hostStride)
      complain(from.rows->where, "rows need a host-stride");
    if (from.hostStride && !from.rows)
      complain(from.hostStride->where, "a host-stride needs rows");
    if (from.deviceStride && (!from.rows || !from.deviceAddress))
      complain(from.deviceStride->where, "a device-stride needs rows and a device-address");
    if (from.window && !from.deviceAddress)
      complain(from.window->where, "a window needs a device-address");
    if (from.window && window(*from.window))
      to.window = from.window->value;
    return to;
  }

  EntryForm::Chain chain(const raw::Chain &from, const EntryForm &form) {
    EntryForm::Chain to;
    to.address = field(from.address, form, Wanted::Address);
    to.layout = layout(from.layout);
    if (from.last)
      to.last = entryCondition(*from.last, form);
    if (from.limit && (from.limit->value.value == 0 || from.limit->value.value > maxChain))
      complain(from.limit->where, "a limit is between 1 and " + llvm::Twine(maxChain) + " elements");
    else if (from.limit)
      to.limit = unsigned(from.limit->value.value);
    return to;
  }

  /// What can be found by name in the form's fields. `where` is the form's name.
  void addMeaning(const raw::EntryMeaning &from, EntryForm &to, llvm::SMRange where) {
    if (within(from.transfers.size(), maxPerActivity, "transfers", where))
      for (const raw::EntryTransfer &moved : from.transfers)
        to.transfers.push_back(entryTransfer(moved, to));
    if (from.fence)
      to.fence = EntryForm::Fence{field(from.fence->address, to, Wanted::Address),
                                  field(from.fence->value, to, Wanted::NoAddress)};
    if (from.chain)
      to.chain = chain(*from.chain, to);
    if (from.sync)
      to.sync = sync(*from.sync, to);
  }

  EntryForm::Sync sync(const raw::Sync &from, const EntryForm &form) {
    using Kind = EntryForm::Sync::Kind;
    static constexpr words::Word<Kind> kinds[] = {
        {"barrier", Kind::Barrier}, {"signal", Kind::Signal}, {"wait", Kind::Wait}};
    EntryForm::Sync to;
    to.kind = word<Kind>(from.kind, kinds, "kind of synchronisation", Kind::Barrier);
    if (from.on)
      to.on = field(*from.on, form, Wanted::NoAddress);
    if ((to.kind == Kind::Barrier) == from.on.has_value())
      complain(from.kind.where, from.on ? "a barrier is on nothing: it is of all queues"
                                        : "what is signalled or waited for is named by a field: `on`");
    return to;
  }

  /// Appends to `form`, which may have common fields already.
  void addFields(const std::vector<raw::EntryField> &from, EntryForm &form, unsigned size,
                 llvm::SMRange where) {
    totalFields += form.fields.size() + from.size();
    if (!within(form.fields.size() + from.size(), maxFields, "fields", where) ||
        !within(totalFields, maxEntryFields, "fields of all forms together", where))
      return;
    llvm::StringSet<> seen;
    for (const EntryField &common : form.fields)
      seen.insert(common.name);
    for (const raw::EntryField &field : from)
      form.fields.push_back(entryField(field, size, seen));
  }

  void addForms(const raw::Layout &from, LayoutDescription &to) {
    EntryForm common;
    common.name = from.name.value;
    addFields(from.meaning.fields, common, to.size, from.name.where);
    if (!to.opcode) {
      if (!from.forms.empty())
        complain(from.forms.front().name.where, "forms need an opcode by which they are told apart");
      addMeaning(from.meaning, common, from.name.where);
      common.doc = to.doc;
      to.forms.push_back(std::move(common));
      return;
    }
    if (from.forms.empty())
      complain(from.opcode->where, "an opcode needs forms");
    if (!from.meaning.transfers.empty() || from.meaning.fence || from.meaning.chain || from.meaning.sync)
      complain(from.name.where,
               "a layout with an opcode has transfers, fence, chain and sync in its forms, not beside them");
    if (!within(from.forms.size(), maxForms, "forms", from.name.where))
      return;
    llvm::StringSet<> seen;
    std::vector<uint64_t> opcodes;
    for (const raw::Form &form : from.forms) {
      if (totalFields > maxEntryFields) // Complained about; each form is a copy of the common fields.
        return;
      EntryForm described = common;
      checkUnique(form.name, "form", seen);
      checkProse(form.doc, "doc", form.name.where);
      described.name = form.name.value;
      described.doc = form.doc;
      described.opcode = form.opcode.value.value;
      if (described.opcode & ~to.opcode->mask())
        complain(form.opcode.where, "the opcode has bits outside its field");
      else if (llvm::is_contained(opcodes, described.opcode))
        complain(form.opcode.where, "a second form with this opcode");
      opcodes.push_back(described.opcode);
      addFields(form.meaning.fields, described, to.size, form.name.where);
      addMeaning(form.meaning, described, form.name.where);
      to.forms.push_back(std::move(described));
    }
  }

  void addLayouts() {
    if (!within(in.layouts.size(), maxLayouts, "layouts"))
      return;
    llvm::StringSet<> seen;
    for (const raw::Layout &from : in.layouts) // Chains may refer to what comes later.
      checkUnique(from.name, "layout", seen);
    for (const raw::Layout &from : in.layouts) {
      LayoutDescription to;
      to.name = from.name.value;
      to.doc = from.doc;
      checkProse(from.doc, "doc", from.name.where);
      if (from.size.value.value == 0 || from.size.value.value > maxEntryBytes)
        complain(from.size.where, "an entry has 1 to " + llvm::Twine(maxEntryBytes) + " bytes");
      else
        to.size = unsigned(from.size.value.value);
      if (from.opcode) {
        to.opcode.emplace();
        to.opcode->name = "opcode";
        place(*to.opcode, from.opcode->offset, from.opcode->width, from.opcode->bits, to.size);
      }
      if (to.size)
        addForms(from, to);
      out.layouts.push_back(std::move(to));
    }
  }

  unsigned layout(const raw::Text &name) {
    std::vector<llvm::StringRef> names;
    for (const raw::Layout &candidate : in.layouts) {
      if (candidate.name.value == name.value)
        return unsigned(names.size());
      names.push_back(candidate.name.value);
    }
    complain(name.where, "no layout is named '" + name.value + "'" + words::suggestion(name.value, names));
    return 0;
  }

  void addQueues() {
    if (!within(in.queues.size(), maxQueues, "queues"))
      return;
    llvm::StringSet<> seen;
    std::vector<unsigned> doorbells;
    for (const raw::Queue &from : in.queues) {
      QueueDescription to;
      checkUnique(from.name, "queue", seen);
      checkProse(from.doc, "doc", from.name.where);
      to.name = from.name.value;
      to.doc = from.doc;
      to.base = reference(from.base, Writable);
      auto optional = [&](const std::optional<raw::Text> &name, unsigned need,
                          std::optional<unsigned> &index) {
        if (name)
          index = reference(*name, need);
      };
      optional(from.baseHigh, Writable, to.baseHigh);
      if (from.baseHigh && !out.registers.empty() && out.registers[to.base].width > 4)
        complain(from.baseHigh->where, out.registers[to.base].name + " has the whole address already");
      to.size = reference(from.size, Writable);
      optional(from.head, Readable, to.head);
      optional(from.tail, Readable, to.tail);
      to.doorbell = reference(from.doorbell, Writable);
      if (llvm::is_contained(doorbells, to.doorbell))
        complain(from.doorbell.where, "a second queue with this doorbell");
      doorbells.push_back(to.doorbell);
      optional(from.done, Readable, to.done);
      if (within(from.rewind.size(), maxPerActivity, "registers", from.name.where))
        for (const raw::Text &name : from.rewind)
          to.rewind.push_back(reference(name, Writable));
      to.layout = layout(from.layout);
      out.queues.push_back(std::move(to));
    }
  }

  /// Of values that are handed back in entries, in every form that has such a field.
  void addFlows() {
    for (size_t i = 0; i < in.registers.size(); ++i)
      for (const raw::Flow &listed : in.registers[i].flowsInto)
        if (listed.layout)
          addFlow(*listed.layout, *listed.field, out.registers[i]);
  }

  void addFlow(const raw::Text &into, const raw::Text &name, RegisterDescription &from) {
    RegisterDescription::EntryFlow flow;
    flow.layout = layout(into);
    if (flow.layout >= out.layouts.size())
      return; // Complained about.
    const LayoutDescription &described = out.layouts[flow.layout];
    bool found = false;
    for (flow.form = 0; flow.form < described.forms.size(); ++flow.form) {
      const EntryForm &form = described.forms[flow.form];
      const EntryField *field = form.find(name.value);
      if (!field)
        continue;
      if (field->address && !found)
        complain(name.where, "field '" + name.value + "' is a host address and cannot be used here");
      found = true;
      flow.field = unsigned(field - form.fields.data());
      from.flowsIntoEntries.push_back(flow);
    }
    if (!found)
      complain(name.where, "no form of " + described.name + " has a field named '" + name.value + "'");
  }

  void addConditions(const std::vector<raw::Condition> &from, std::vector<RegisterCondition> &to,
                     const char *what, unsigned need) {
    if (within(from.size(), maxPerActivity, what))
      for (const raw::Condition &listed : from)
        to.push_back(condition(listed, need));
  }

  size_t totalFields = 0;
};

} // namespace

void resolveQueues(const raw::Document &document, YamlComplaints &complaints, Description &out) {
  QueueResolver(document, complaints, out).run();
}

} // namespace tapeback
