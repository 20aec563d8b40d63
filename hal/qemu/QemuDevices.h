// The devices of QEMU that can be targets. One place to read, one place to add.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>

namespace tapeback {

/// How a device tells that something happened. MSI-X joins when a device needs it.
enum class QemuInterrupts : uint8_t { None, Msi };

/// What a device keeps its data on: a private memory file, of ours and gone with us.
enum class QemuMedium : uint8_t { None, Disk };

struct QemuDevice {
  const char *name;     ///< In the URI, and of its description.
  const char *argument; ///< QEMU's -device.
  uint16_t vendorId, deviceId;
  uint64_t dmaMask; ///< The highest address it can reach.
  QemuInterrupts interrupts;
  QemuMedium medium; ///< Disk: the argument names it as `drive=medium`.
  const char *summary;
};

llvm::ArrayRef<QemuDevice> qemuDevices();
/// Null if there is none of that name.
const QemuDevice *findQemuDevice(llvm::StringRef name);

} // namespace tapeback
