// Which of the program's file descriptors belong to VFIO, and what is known of each.
//
// Protocol: include/uapi/linux/vfio.h (group and container API, type-1 IOMMU). A descriptor that reaches the
// process otherwise than by the calls that are followed here (passed over a socket, inherited) is not known,
// and what it does is not recorded.
#pragma once

#include "recorder/client/Device.h"

namespace tapeback::preload {

enum class FileKind : uint8_t { Foreign = 0, Container, Group, Device, Interrupt };

/// A region of a device, in the device file's offsets.
struct FileRegion {
  uint64_t offset, size;
  uint16_t space; ///< Index into tb_device::spaces.
};

/// Reads of a register that would end an activity and have not yet: a poll that the program does not call
/// one.
struct OpenPoll {
  uint64_t reads = 0; ///< 0: none.
  uint64_t since = 0, address = 0, value = 0;
  uint16_t space = 0;
  uint8_t width = 0;
};

struct DeviceState {
  tb_device device;
  OpenPoll poll; ///< Under device.lock.
  client::Array<FileRegion> regions;
  int group = -1;
  bool mapRefused = false;
};

/// What one descriptor is.
struct File {
  FileKind kind;
  int container;       ///< Group: the container it was put into; Container: itself; -1 if none.
  int group;           ///< Device: the group it came from.
  DeviceState *device; ///< Device, Interrupt.
  uint32_t vector;     ///< Interrupt.
};

constexpr int maxFiles = 65536; ///< Descriptors above are not followed.

/// Quick, without a lock: what kind a descriptor is.
FileKind kindOf(int fd);
/// The rest, by value. Foreign for anything unknown.
File fileOf(int fd);
void setFile(int fd, const File &file);
void copyFile(int from, int to);
void forgetFile(int fd);
/// True while some descriptor of the device is open.
bool isOpen(const DeviceState *state);
/// The container that the device's group was put into; -1 if it is not known.
int containerOf(const DeviceState *state);

/// The slot of a device by its PCI address ("0000:01:00.0"), made when first asked for: the device of the
/// recording with that target, or null (not to be recorded).
DeviceState *deviceByName(const char *name);
/// All slots, by index from 0; null behind the last. A slot whose device was never opened has `device.open`
/// false.
DeviceState *deviceAt(unsigned index);

} // namespace tapeback::preload
