// What VFIO's calls mean to a recording: which packets each becomes.
#pragma once

#include "recorder/preload/VfioFiles.h"
#include <sys/types.h>

namespace tapeback::preload {

/// Each makes the real call and records it. `errno` is that of the real call. Results as of the function they
/// stand for.
int containerIoctl(int fd, unsigned long request, void *argument);
int groupIoctl(int fd, unsigned long request, void *argument);
int deviceIoctl(int fd, unsigned long request, void *argument);
ssize_t deviceRead(int fd, void *out, size_t size, off_t offset);
ssize_t deviceWrite(int fd, const void *in, size_t size, off_t offset);
ssize_t interruptRead(int fd, void *out, size_t size);
/// A mapping of a device's registers would hide every access from us: refused with ENODEV, and said in the
/// tape.
void *refuseMap(int fd);
/// After a descriptor of the device was closed.
void deviceClosed(DeviceState *state);

} // namespace tapeback::preload
