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
      addContentCounters();
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
    static constexpr words::Word<bool> policies[] = {{"compare", false}, {"ignore", true}};
    to.ignored = wordOr<bool>(from.policy, policies, "policy of a field", false);
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
    auto optional = [&](const std::optional<raw::Text> &name, std::optional<unsigned> &index) {
      if (name)
        index = field(*name, form, Wanted::NoAddress);
    };
    optional(from.rowBytes, to.rowBytes);
    optional(from.rows, to.rows);
    optional(from.hostStride, to.hostStride);
    optional(from.deviceAddress, to.deviceAddress);
    optional(from.deviceStride, to.deviceStride);
    to.plus = from.plus ? from.plus->value.value : 0;
    to.times = from.times ? from.times->value.value : 1;
    if (!from.rowBytes && to.plus == 0)
      complain(from.hostAddress.where, "how much is moved? row-bytes is a field; plus a number of its own");
    if (to.plus > maxEntrySum)
      complain(from.plus->where, "at most " + llvm::Twine(maxEntrySum));
    if (to.times == 0 || to.times > maxEntrySum)
      complain(from.times->where, "times is between 1 and " + llvm::Twine(maxEntrySum));
    if (from.pages)
      to.pages = pages(from, form);
    if (from.content)
      to.content = layout(*from.content);
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

  EntryTransfer::Pages pages(const raw::EntryTransfer &from, const EntryForm &form) {
    EntryTransfer::Pages to;
    to.second = field(from.pages->second, form, Wanted::Address);
    to.size = from.pages->size.value.value;
    if (to.size < 16 || to.size > maxPage || (to.size & (to.size - 1)))
      complain(from.pages->size.where, "a page has a power of two of bytes, 16 to " + llvm::Twine(maxPage));
    if (from.rows)
      complain(from.rows->where, "what lies in pages has no rows");
    if (from.window)
      complain(from.window->where, "what lies in pages has no window");
    return to;
  }

  bool completionsMeant(const raw::Text &kind) {
    static constexpr words::Word<bool> kinds[] = {{"queue", false}, {"completion-queue", true}};
    return word<bool>(kind, kinds, "kind of ring", false);
  }
  EntryForm::Creates creates(const raw::Creates &from, const EntryForm &form) {
    EntryForm::Creates to;
    to.completions = completionsMeant(from.kind);
    to.number = field(from.number, form, Wanted::NoAddress);
    to.base = field(from.base, form, Wanted::Address);
    to.size = field(from.size, form, Wanted::NoAddress);
    to.sizePlus = sizePlus(from.sizePlus);
    return to;
  }
  uint64_t sizePlus(const std::optional<raw::Number> &from) {
    if (from && from->value.value > maxChain)
      complain(from->where, "size-plus is at most " + llvm::Twine(maxChain));
    return from ? from->value.value : 0;
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
    if (from.creates)
      to.creates = creates(*from.creates, to);
    if (from.deletes)
      to.deletes = EntryForm::Deletes{completionsMeant(from.deletes->kind),
                                      field(from.deletes->number, to, Wanted::NoAddress)};
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
    if (from.tag)
      if (unsigned index = field(*from.tag, common, Wanted::NoAddress); index < common.fields.size())
        to.tag = common.fields[index];
    if (from.completes)
      to.completes = completes(*from.completes, common);
    if (from.completes && to.opcode)
      complain(from.completes->queue.where, "completions have one form: leave the opcode out");
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
    if (!from.meaning.transfers.empty() || from.meaning.fence || from.meaning.chain || from.meaning.sync ||
        from.meaning.creates || from.meaning.deletes)
      complain(from.name.where,
               "a layout with an opcode has transfers, fence, chain, sync, creates and deletes in "
               "its forms, not beside them");
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

  LayoutDescription::Completes completes(const raw::Completes &from, const EntryForm &form) {
    LayoutDescription::Completes to;
    auto copy = [&](const raw::Text &name, EntryField &out) {
      if (unsigned index = field(name, form, Wanted::NoAddress); index < form.fields.size())
        out = form.fields[index];
    };
    copy(from.queue, to.queue);
    copy(from.tag, to.tag);
    copy(from.phase, to.phase);
    if (to.phase.low != to.phase.high)
      complain(from.phase.where, "a phase is one bit");
    if (from.success)
      to.success = entryCondition(*from.success, form);
    return to;
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

  void optionalReference(const std::optional<raw::Text> &name, unsigned need,
                         std::optional<unsigned> &index) {
    if (name)
      index = reference(*name, need);
  }

  /// `created`: some command creates rings of that kind.
  void addRing(const raw::Ring &from, RingDescription &to, bool created) {
    checkUnique(from.name, "queue", ringNames);
    checkProse(from.doc, "doc", from.name.where);
    to.name = from.name.value;
    to.doc = from.doc;
    optionalReference(from.base, Writable, to.base);
    optionalReference(from.baseHigh, Writable, to.baseHigh);
    if (from.baseHigh && to.base && !out.registers.empty() && out.registers[*to.base].width > 4)
      complain(from.baseHigh->where, out.registers[*to.base].name + " has the whole address already");
    optionalReference(from.size, Writable, to.size);
    if (from.base.has_value() != from.size.has_value() || (from.baseHigh && !from.base))
      complain(from.name.where, "a queue has both base and size, or neither if a command creates it");
    if (!from.base && !created)
      complain(from.name.where, "where is it? Without base and size there must be a form that `creates` it");
    if (!from.base && !from.number)
      complain(from.name.where, "a queue that a command creates has a number");
    if (from.sizeBits && !parseBits(from.sizeBits->value, to.sizeLow, to.sizeHigh))
      complain(from.sizeBits->where, "bits are written as one number or HIGH:LOW, for example 7 or 15:8");
    else if (from.sizeBits && (!to.size || to.sizeHigh >= 8 * out.registers[*to.size].width))
      complain(from.sizeBits->where, "these bits do not lie in a size register");
    to.sizePlus = sizePlus(from.sizePlus);
    if (from.number)
      to.number = from.number->value.value;
    to.doorbell = reference(from.doorbell, Writable);
    if (llvm::is_contained(doorbells, to.doorbell))
      complain(from.doorbell.where, "a second queue with this doorbell");
    doorbells.push_back(to.doorbell);
    to.layout = layout(from.layout);
  }

  void checkNumber(const raw::Ring &from, std::vector<uint64_t> &numbers) {
    if (!from.number)
      return;
    if (llvm::is_contained(numbers, from.number->value.value))
      complain(from.number->where, "a second queue with this number");
    numbers.push_back(from.number->value.value);
  }

  bool anyCreates(bool completions) const {
    return llvm::any_of(out.layouts, [&](const LayoutDescription &layout) {
      return llvm::any_of(layout.forms, [&](const EntryForm &form) {
        return form.creates && form.creates->completions == completions;
      });
    });
  }

  void addQueues() {
    if (!within(in.queues.size(), maxQueues, "queues") ||
        !within(in.completionQueues.size(), maxQueues, "completion queues"))
      return;
    std::vector<uint64_t> numbers;
    for (const raw::Queue &from : in.queues) {
      QueueDescription to;
      addRing(from.ring, to, anyCreates(false));
      checkNumber(from.ring, numbers);
      optionalReference(from.head, Readable, to.head);
      optionalReference(from.tail, Readable, to.tail);
      optionalReference(from.done, Readable, to.done);
      if (within(from.rewind.size(), maxPerActivity, "registers", from.ring.name.where))
        for (const raw::Text &name : from.rewind)
          to.rewind.push_back(reference(name, Writable));
      out.queues.push_back(std::move(to));
    }
    numbers.clear();
    for (const raw::Ring &from : in.completionQueues) {
      RingDescription to;
      addRing(from, to, anyCreates(true));
      checkNumber(from, numbers);
      if (to.layout < out.layouts.size() && !out.layouts[to.layout].completes)
        complain(from.layout.where, "its layout must say what an entry `completes`");
      if (!out.completionQueues.empty() && out.completionQueues.front().layout != to.layout)
        complain(from.layout.where, "all completion queues have one layout");
      out.completionQueues.push_back(std::move(to));
    }
    if (in.completionQueues.empty())
      return;
    for (size_t i = 0; i < out.queues.size(); ++i)
      if (!out.queues[i].number ||
          (out.queues[i].layout < out.layouts.size() && !out.layouts[out.queues[i].layout].tag))
        complain(in.queues[i].ring.name.where,
                 "completions name a queue by its number and an entry by its layout's tag: both are needed");
  }

  /// Of values that are handed back in entries, in every form that has such a field.
  void addFlows() {
    for (size_t i = 0; i < in.registers.size(); ++i)
      for (const raw::Flow &listed : in.registers[i].flowsInto)
        if (listed.layout)
          addFlow(*listed.layout, *listed.field, out.registers[i]);
  }

  /// Counters that stand in what transfers bring.
  void addContentCounters() {
    for (size_t i = 0; i < in.counters.size() && i < out.counters.size(); ++i) {
      const raw::Counter &from = in.counters[i];
      if (!from.layout || !from.field)
        continue;
      CounterDescription::Content content;
      content.layout = layout(*from.layout);
      if (content.layout >= out.layouts.size() || out.layouts[content.layout].forms.empty())
        continue; // Complained about.
      content.field = field(*from.field, out.layouts[content.layout].forms.front(), Wanted::NoAddress);
      if (out.layouts[content.layout].opcode)
        complain(from.layout->where, "what a transfer brings has one form");
      out.counters[i].content = content;
    }
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

  static constexpr uint64_t maxEntrySum = 1 << 20, maxPage = 1 << 20;
  size_t totalFields = 0;
  llvm::StringSet<> ringNames;
  std::vector<unsigned> doorbells;
};

} // namespace

void resolveQueues(const raw::Document &document, YamlComplaints &complaints, Description &out) {
  QueueResolver(document, complaints, out).run();
}

} // namespace tapeback
