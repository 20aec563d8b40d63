// Puts the issue of an access that may never come back on stable storage before the access is made, where
// `tapeback record --durable` asks for it.
#pragma once

#include "format/Packet.h"
#include "hal/backend/tapeback_backend.h"
#include "recorder/durable/DurableFormat.h"

struct tb_device;

namespace tapeback::client {

struct DurableLog; ///< Of the process. Threads: all calls below may come from any.

/// Null unless the environment names a log. Set once, before the first operation. It is constinit: nothing
/// runs before main.
// NOLINTNEXTLINE(bugprone-dynamic-static-initializers)
[[gnu::visibility("hidden")]] extern constinit DurableLog *durableLog;

/// Looks at the environment. `error`, if not empty afterwards, is why the log that it names cannot be used.
void attachDurableLog(char *error, size_t size);
/// The device's spaces have names now.
void durableOpened(const tb_device *device);

/// One access. `slot` 0: it is not logged.
struct DurableAccess {
  uint32_t slot = 0;    ///< 1 + place in the file.
  durable::Entry entry; ///< Of a poll: mask, expected and deadline are set by the caller.
};
/// True if accesses to these bytes are logged.
bool isDurable(const tb_device *device, uint32_t space, uint64_t offset, uint32_t width);
/// Returns when the issue is on stable storage (or that failed, which is counted).
void durableIssue(DurableAccess &access, const tb_device *device, PacketKind kind, uint32_t space,
                  uint64_t offset, uint32_t width, uint64_t value);
/// It came back.
void durableAnswer(DurableAccess &access, Completion completion, uint64_t value);

/// For an access of the program: logs it if it is to be logged.
inline void durableBefore(DurableAccess &access, const tb_device *device, PacketKind kind, uint32_t space,
                          uint64_t offset, uint32_t width, uint64_t value) {
  if (durableLog && isDurable(device, space, offset, width)) [[unlikely]]
    durableIssue(access, device, kind, space, offset, width, value);
}
inline void durableAfter(DurableAccess &access, Completion completion, uint64_t value) {
  if (access.slot) [[unlikely]]
    durableAnswer(access, completion, value);
}
/// By the backend's status.
inline void durableAfter(DurableAccess &access, int status, uint64_t value) {
  durableAfter(access, status == TAPEBACK_BACKEND_OK ? Completion::Done : Completion::Failed, value);
}

} // namespace tapeback::client
