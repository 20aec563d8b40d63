#include "hal/vfio/PciConfig.h"
#include "llvm/Support/FormatVariadic.h"

namespace tapeback {
namespace {

struct KnownDevice {
  uint16_t vendor, device;
  const char *name;
};
constexpr KnownDevice knownDevices[] = {
    {0x1234, 0x11e8, "edu"},
};

} // namespace

std::string pciDeviceName(const PciDevice &device) {
  for (const KnownDevice &known : knownDevices)
    if (known.vendor == device.vendor && known.device == device.device)
      return known.name;
  return llvm::formatv("{0:x-4}:{1:x-4}", device.vendor, device.device).str();
}

} // namespace tapeback
