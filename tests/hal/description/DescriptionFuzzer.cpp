// Any bytes as a device description. One that is accepted must keep the promises of Description.h.
#include "format/Failure.h"
#include "hal/description/Description.h"
#include <cstdlib>

using namespace tapeback;

static void require(bool holds) {
  if (!holds)
    std::abort();
}

/// Every index of a form is one of its fields, and every field lies in the entry.
static void requireForm(const Description &description, const LayoutDescription &layout,
                        const EntryForm &form) {
  auto isField = [&](unsigned field) { require(field < form.fields.size()); };
  auto isAddress = [&](unsigned field) {
    isField(field);
    require(form.fields[field].address && form.fields[field].low == 0);
  };
  for (const EntryField &field : form.fields) {
    require(field.width && field.offset <= layout.size && layout.size - field.offset >= field.width);
    require(field.low <= field.high && field.high < 8 * field.width && field.mask());
    require(form.find(field.name) == &field);
  }
  for (const EntryTransfer &transfer : form.transfers) {
    isAddress(transfer.hostAddress);
    if (transfer.rowBytes)
      isField(*transfer.rowBytes);
    require(transfer.rows.has_value() == transfer.hostStride.has_value());
    for (std::optional<unsigned> field :
         {transfer.rows, transfer.hostStride, transfer.deviceAddress, transfer.deviceStride})
      isField(field.value_or(0));
    if (transfer.when)
      isField(transfer.when->field);
    require(transfer.window.empty() || description.findWindow(transfer.window));
  }
  if (form.fence) {
    isAddress(form.fence->address);
    isField(form.fence->value);
  }
  if (form.chain) {
    isAddress(form.chain->address);
    require(form.chain->layout < description.layouts.size() && form.chain->limit);
    if (form.chain->last)
      isField(form.chain->last->field);
  }
}

static void requireQueues(const Description &description, llvm::ArrayRef<uint8_t> bytes) {
  size_t registers = description.registers.size();
  for (const LayoutDescription &layout : description.layouts) {
    require(layout.size && layout.size <= 4096 && !layout.forms.empty());
    require(layout.opcode || layout.forms.size() == 1);
    for (const EntryForm &form : layout.forms)
      requireForm(description, layout, form);
    // What is decoded may be anything: here, the description's own text.
    const EntryForm *form = layout.formOf(bytes);
    require(!form || bytes.size() >= layout.size);
    require(!formatEntry(layout, bytes).empty());
    require(!formatEntry(layout, bytes.take_front(layout.size - 1)).empty());
  }
  for (const QueueDescription &queue : description.queues) {
    for (unsigned reg :
         {queue.base.value_or(0), queue.size.value_or(0), queue.doorbell, queue.baseHigh.value_or(0),
          queue.head.value_or(0), queue.tail.value_or(0), queue.done.value_or(0)})
      require(reg < registers);
    for (unsigned reg : queue.rewind)
      require(reg < registers);
    require(queue.layout < description.layouts.size());
  }
  for (const std::vector<RegisterCondition> *list : {&description.idle, &description.resets})
    for (const RegisterCondition &condition : *list)
      require(condition.reg < registers);
  for (const CounterDescription &counter : description.counters)
    require(counter.reg < registers && counter.high.value_or(0) < registers && counter.widthBits &&
            counter.widthBits <= 64);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  llvm::Expected<Description> description = parseDescription(text, "fuzz");
  if (!description) {
    require(toFailure(description.takeError()).cls == FailureClass::Usage);
    return 0;
  }
  size_t registers = description->registers.size();
  for (const RegisterDescription &reg : description->registers) {
    require(reg.width == 1 || reg.width == 2 || reg.width == 4 || reg.width == 8);
    require(description->findByName(reg.name) == &reg);
    const RegisterDescription *found = description->find(reg.space, reg.offset);
    require(found && (reg.aliasOf.empty() ? found == &reg : found->name == reg.aliasOf));
    require(description->find(reg.space, reg.offset + (reg.width - 1)) == found);
    for (const FieldDescription &field : reg.fields)
      require((field.mask() & ~reg.widthMask()) == 0 && field.mask() != 0);
  }
  for (const ActivityDescription &activity : description->activities) {
    require(activity.starts.reg < registers && !activity.done.empty());
    for (const TransferDescription &transfer : activity.transfers)
      require(transfer.hostAddress < registers && transfer.deviceAddress < registers &&
              transfer.count < registers &&
              (transfer.window.empty() || description->findWindow(transfer.window)));
  }
  for (const InternalWindow &window : description->windows) {
    require(window.size && window.base + (window.size - 1) >= window.base && window.maxTransfer);
    if (window.port)
      require(window.port->address < registers && window.port->data < registers &&
              window.port->address != window.port->data);
  }
  requireQueues(*description, {data, size});
  for (const RestoreStep &step : description->restore)
    require(step.kind == RestoreStep::Kind::Register ? step.reg < registers
                                                     : description->findWindow(step.window) != nullptr);
  return 0;
}
