// Any bytes as a device description. One that is accepted must keep the promises of Description.h.
#include "format/Failure.h"
#include "hal/description/Description.h"
#include <cstdlib>

using namespace tapeback;

static void require(bool holds) {
  if (!holds)
    std::abort();
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
  for (const InternalWindow &window : description->windows)
    require(window.size && window.base + (window.size - 1) >= window.base && window.maxTransfer);
  for (const RestoreStep &step : description->restore)
    require(step.kind == RestoreStep::Kind::Register ? step.reg < registers
                                                     : description->findWindow(step.window) != nullptr);
  return 0;
}
