// Register accesses, polls, counters.
#include "recorder/client/Device.h"
#include "recorder/client/DurableLog.h"
#include "recorder/client/Evidence.h"
#include "recorder/client/Gaps.h"
#include <cstdlib>
#include <cstring>

using namespace tapeback;
using namespace tapeback::client;

static ring::Access accessOf(const tb_device *device, PacketKind kind, int space, uint64_t offset,
                             uint32_t width, uint64_t value) {
  return ring::Access::make(kind, offset, value, device->id, uint16_t(space + 1), threadNumber(), width,
                            Origin::Program);
}

/// A space's name as a word (Shortcut::isFor). False where that cannot be had at once.
[[gnu::always_inline]] static inline bool wordOf(const char *name, uint64_t &word) {
#if defined(__x86_64__)
  // Where it cannot leave the page, nor at a page's beginning, since null is one. The compiler (and its
  // sanitizers) need not know what is read behind the name.
  if (((reinterpret_cast<uintptr_t>(name) - 1) & 4095) > 4095 - sizeof(uint64_t)) [[unlikely]]
    return false;
  asm("movq %1, %0" : "=a"(word) : "m"(*reinterpret_cast<const uint8_t(*)[8]>(name)));
  return true;
#else
  (void)name, (void)word;
  return false;
#endif
}

/// Reads have a place for it, writes have it.
template <PacketKind kind, typename T>
using Value = std::conditional_t<kind == PacketKind::RegisterRead, T *, T>;

/// The target's part of such a call; a failure is in device->failure. `seen`: the value that was read or
/// written.
template <typename T>
[[gnu::always_inline]] static inline int access(tb_device *device, uint64_t offset, T *value,
                                                uint64_t &seen) {
  int status = device->readTarget(device->target, 0, offset, sizeof(T), &seen, &device->failure);
  if (status == TAPEBACK_BACKEND_OK) [[likely]]
    *value = T(seen);
  return status;
}
template <typename T>
[[gnu::always_inline]] static inline int access(tb_device *device, uint64_t offset, T value, uint64_t &seen) {
  seen = value;
  return device->writeTarget(device->target, 0, offset, sizeof(T), value, &device->failure);
}

// The two ends of the calls that may leave out most of what follows (Shortcut), and are most of all calls.
// They are entered with the lock, and leave it. What is rare is out of line, all of it: registers that are
// saved for it would cost more than the rest of an unrecorded call.

[[gnu::cold, gnu::noinline]] static int failDirect(tb_device *device, int status) {
  status = failBackend(status, device->failure);
  device->lock.leave();
  return status;
}

template <PacketKind kind, typename T>
[[gnu::always_inline]] static inline int direct(tb_device *device, uint64_t offset, Value<kind, T> value) {
  uint64_t seen = 0;
  int status = access<T>(device, offset, value, seen);
  if (status != TAPEBACK_BACKEND_OK) [[unlikely]]
    return failDirect(device, status);
  device->lock.leave();
  return TB_OK;
}

/// Makes the access anew: what is kept for this in memory would be stored in each call.
template <PacketKind kind, uint32_t width>
[[gnu::cold, gnu::noinline]] static int failRecorded(tb_device *device, uint64_t offset, uint64_t value,
                                                     ring::IssuedAccess underway, int status) {
  const ring::Access issued = accessOf(device, kind, 0, offset, width, value);
  startedSession().producer.completeInPlace(underway, issued, Completion::Failed, 0);
  status = operationFailed(device, underway.name, status, device->failure);
  device->lock.leave();
  return status;
}

template <PacketKind kind, typename T>
[[gnu::noinline, gnu::used]] static int recorded(tb_device *device, const char * /*space*/, uint64_t offset,
                                                 Value<kind, T> value) {
  constexpr bool reads = kind == PacketKind::RegisterRead;
  ring::Producer &producer = startedSession().producer;
  uint64_t seen = 0;
  if constexpr (!reads)
    seen = value;
  const ring::Access issued = accessOf(device, kind, 0, offset, sizeof(T), seen);
  const ring::IssuedAccess underway = producer.issueInPlace(issued);
  if (!underway.name) [[unlikely]]
    (void)recordingNow(); // Counts it.
  int status = access<T>(device, offset, value, seen);
  if (status != TAPEBACK_BACKEND_OK) [[unlikely]]
    return failRecorded<kind, sizeof(T)>(device, offset, issued.value, underway, status);
  producer.completeInPlace(underway, issued, Completion::Done, seen);
  if (reads)
    rememberRead(device->id, underway.name, seen);
  device->lock.leave();
  return TB_OK;
}

/// One access of the target with the lock held: what tb_read* have in common.
[[gnu::noinline]] static int accessRead(tb_device *device, const char *spaceName, uint64_t offset,
                                        uint32_t width, uint64_t *value) {
  if (int code = usable(device))
    return code;
  Locked lock(device->lock);
  if (int code = usable(device))
    return code;
  int space = findSpace(device, spaceName);
  if (space < 0)
    return TB_E_USAGE;
  operationBegins();
  Session &current = startedSession();
  tapeback_backend_failure failure;
  if (!current.table()) {
    // This process is not recorded, and never will be.
    int status = device->backend->read(device->target, uint32_t(space), offset, width, value, &failure);
    return status == TAPEBACK_BACKEND_OK ? TB_OK : failBackend(status, failure);
  }
  DurableAccess durable;
  durableBefore(durable, device, PacketKind::RegisterRead, uint32_t(space), offset, width, 0);
  ring::Access access = accessOf(device, PacketKind::RegisterRead, space, offset, width, 0);
  ring::IssuedAccess underway;
  if (recordingNow())
    underway = current.producer.issueInPlace(access);
  int status = device->backend->read(device->target, uint32_t(space), offset, width, value, &failure);
  durableAfter(durable, status, *value);
  if (status != TAPEBACK_BACKEND_OK) {
    current.producer.completeInPlace(underway, access, Completion::Failed, 0);
    return operationFailed(device, underway.name, status, failure);
  }
  if (device->follower.followsReads()) {
    ring::Producer::Group group(current.producer);
    current.producer.completeInPlace(underway, access, Completion::Done, *value);
    device->follower.afterRead(*device, uint32_t(space), offset, width, *value);
  } else {
    current.producer.completeInPlace(underway, access, Completion::Done, *value);
  }
  rememberRead(device->id, underway.name, *value);
  if (device->evidencePeriod)
    takeEvidenceInTime(*device);
  return TB_OK;
}

/// All other reads. `entered`: the lock is.
template <typename T>
[[gnu::noinline]] static int readSlowly(tb_device *device, const char *space, uint64_t offset, T *value,
                                        bool entered) {
  if (entered)
    device->lock.leave();
  if (!value)
    return fail(TB_E_USAGE, "tb_read: value is null");
  uint64_t wide = 0;
  int code = accessRead(device, space, offset, sizeof(T), &wide);
  if (code == TB_OK)
    *value = T(wide);
  return code;
}

template <typename T>
[[gnu::always_inline]] static inline int readAs(tb_device *device, const char *space, uint64_t offset,
                                                T *value) {
  uint64_t name;
  if (!value || !device || !wordOf(space, name) || !DeviceLock::mayEnter()) [[unlikely]]
    return readSlowly(device, space, offset, value, false);
  // From here on the lock is to be left, also where it was not had.
  if (device->lock.announce()) [[likely]] {
    if (device->unrecorded.isFor(name))
      return direct<PacketKind::RegisterRead, T>(device, offset, value);
    if (device->recorded.isFor(name))
      return recorded<PacketKind::RegisterRead, T>(device, space, offset, value);
  }
  return readSlowly(device, space, offset, value, true);
}

int tb_read8(tb_device *device, const char *space, uint64_t offset, uint8_t *value) {
  return readAs(device, space, offset, value);
}
int tb_read16(tb_device *device, const char *space, uint64_t offset, uint16_t *value) {
  return readAs(device, space, offset, value);
}
int tb_read32(tb_device *device, const char *space, uint64_t offset, uint32_t *value) {
  return readAs(device, space, offset, value);
}
int tb_read64(tb_device *device, const char *space, uint64_t offset, uint64_t *value) {
  return readAs(device, space, offset, value);
}

[[gnu::noinline]] static int accessWrite(tb_device *device, const char *spaceName, uint64_t offset,
                                         uint32_t width, uint64_t value) {
  if (int code = usable(device))
    return code;
  Locked lock(device->lock);
  if (int code = usable(device))
    return code;
  int space = findSpace(device, spaceName);
  if (space < 0)
    return TB_E_USAGE;
  operationBegins();
  Session &current = startedSession();
  tapeback_backend_failure failure;
  if (!current.table()) {
    int status = device->backend->write(device->target, uint32_t(space), offset, width, value, &failure);
    return status == TAPEBACK_BACKEND_OK ? TB_OK : failBackend(status, failure);
  }
  DurableAccess durable;
  durableBefore(durable, device, PacketKind::RegisterWrite, uint32_t(space), offset, width, value);
  ring::Access access = accessOf(device, PacketKind::RegisterWrite, space, offset, width, value);
  ring::IssuedAccess underway;
  if (device->follower.followsWrites()) {
    // What the device is told to look at goes in front of the telling.
    ring::Producer::Group group(current.producer);
    device->follower.beforeWrite(*device, uint32_t(space), offset, width, value);
    if (recordingNow())
      underway = current.producer.issueInPlace(access);
  } else if (recordingNow()) {
    underway = current.producer.issueInPlace(access);
  }
  int status = device->backend->write(device->target, uint32_t(space), offset, width, value, &failure);
  durableAfter(durable, status, value);
  current.producer.completeInPlace(
      underway, access, status == TAPEBACK_BACKEND_OK ? Completion::Done : Completion::Failed, value);
  if (status != TAPEBACK_BACKEND_OK)
    return operationFailed(device, underway.name, status, failure);
  if (device->evidencePeriod)
    takeEvidenceInTime(*device);
  return TB_OK;
}

[[gnu::noinline]] static int writeAfterLeave(tb_device *device, const char *space, uint64_t offset,
                                             uint32_t width, uint64_t value) {
  device->lock.leave();
  return accessWrite(device, space, offset, width, value);
}

template <typename T>
[[gnu::always_inline]] static inline int writeAs(tb_device *device, const char *space, uint64_t offset,
                                                 T value) {
  uint64_t name;
  if (!device || !wordOf(space, name) || !DeviceLock::mayEnter()) [[unlikely]]
    return accessWrite(device, space, offset, sizeof(T), value);
  if (device->lock.announce()) [[likely]] {
    if (device->unrecorded.isFor(name))
      return direct<PacketKind::RegisterWrite, T>(device, offset, value);
    if (device->recorded.isFor(name))
      return recorded<PacketKind::RegisterWrite, T>(device, space, offset, value);
  }
  return writeAfterLeave(device, space, offset, sizeof(T), value);
}

int tb_write8(tb_device *device, const char *space, uint64_t offset, uint8_t value) {
  return writeAs(device, space, offset, value);
}
int tb_write16(tb_device *device, const char *space, uint64_t offset, uint16_t value) {
  return writeAs(device, space, offset, value);
}
int tb_write32(tb_device *device, const char *space, uint64_t offset, uint32_t value) {
  return writeAs(device, space, offset, value);
}
int tb_write64(tb_device *device, const char *space, uint64_t offset, uint64_t value) {
  return writeAs(device, space, offset, value);
}

int tb_poll(tb_device *device, const char *spaceName, uint64_t offset, unsigned width, uint64_t mask,
            uint64_t expected, uint64_t deadline, uint64_t *value) {
  if (int code = usable(device))
    return code;
  if (width != 1 && width != 2 && width != 4 && width != 8)
    return fail(TB_E_USAGE, "tb_poll: a width of %u bytes; there are 1, 2, 4 and 8", width);
  if (expected & ~mask)
    return fail(TB_E_USAGE, "tb_poll: expected has bits outside mask: it can never hold");
  device->lock.lock();
  int code = usable(device);
  int space = code == TB_OK ? findSpace(device, spaceName) : -1;
  if (space < 0) {
    device->lock.unlock();
    return code == TB_OK ? TB_E_USAGE : code;
  }
  Operation operation(device, PacketKind::Poll);
  operation.record.space = uint16_t(space + 1);
  operation.record.address = offset;
  operation.record.width = uint8_t(width);
  operation.record.mask = mask;
  operation.record.expected = expected;
  operation.record.deadline = deadline;
  DurableAccess durable;
  durable.entry.mask = mask;
  durable.entry.expected = expected;
  durable.entry.deadline = deadline;
  durableBefore(durable, device, PacketKind::Poll, uint32_t(space), offset, width, 0);
  operation.issue();
  const tapeback_backend *backend = startedSession().backend;
  Pace pace(device, deadline);
  tapeback_backend_failure failure;
  uint64_t last = 0, count = 0;
  for (;;) {
    // Asked before the look: the last look is after the deadline, never before it.
    bool over = pace.over();
    int status = backend->read(device->target, uint32_t(space), offset, width, &last, &failure);
    ++count;
    bool holds = status == TAPEBACK_BACKEND_OK && (last & mask) == expected;
    if (status == TAPEBACK_BACKEND_OK && !holds && !over) {
      status = backend->advance(device->target, pace.step(), &failure);
      if (status == TAPEBACK_BACKEND_OK) {
        // Others may use the device between two looks: what we wait for may be their doing.
        device->lock.pass();
        code = usable(device);
        if (code == TB_OK)
          continue;
        durableAfter(durable, Completion::Failed, last);
        operation.complete(Completion::Failed, last, count);
        break;
      }
    }
    durableAfter(durable,
                 status != TAPEBACK_BACKEND_OK ? Completion::Failed
                 : holds                       ? Completion::Done
                                               : Completion::TimedOut,
                 last);
    ring::Producer::Group group(startedSession().producer);
    if (status != TAPEBACK_BACKEND_OK) {
      operation.record.count = count;
      code = operation.finish(status, failure, last);
      break;
    }
    operation.complete(holds ? Completion::Done : Completion::TimedOut, last, count);
    rememberRead(device->id, operation.sequence(), last);
    device->follower.afterRead(*device, uint32_t(space), offset, width, last);
    code = holds ? TB_OK
                 : fail(TB_E_TIMEOUT, "tb_poll: still 0x%llx after %llu reads", (unsigned long long)last,
                        (unsigned long long)count);
    break;
  }
  device->lock.unlock();
  if (value)
    *value = last;
  return code;
}

/// The counter in the capture table, or in the target's own description when nothing is recorded.
static int findCounter(tb_device *device, const char *name, tapeback_backend_counter *counter) {
  const capture::Table *table = startedSession().table();
  if (!table) {
    tapeback_backend_failure failure;
    int status = startedSession().backend->find_counter(device->target, secure_getenv("TAPEBACK_DESCRIPTION"),
                                                        name, counter, &failure);
    return status == TAPEBACK_BACKEND_OK ? TB_OK : failBackend(status, failure);
  }
  const capture::Device &described = capture::elements<capture::Device>(table, table->devices)[device->id];
  const auto *counters =
      capture::elements<capture::Counter>(table, table->counters) + described.counters.first;
  const auto *names = capture::elements<capture::Name>(table, table->spaces);
  for (uint32_t i = 0; i < described.counters.count; ++i) {
    if (strcmp(counters[i].name, name) != 0)
      continue;
    int space = findSpace(device, names[counters[i].space].text);
    if (space < 0)
      return TB_E_USAGE;
    *counter = {counters[i].id, uint32_t(space), counters[i].offset, counters[i].width,
                counters[i].widthBits};
    return TB_OK;
  }
  return fail(TB_E_USAGE, "the description of device '%s' has no counter '%s'", device->alias, name);
}

int tb_counter(tb_device *device, const char *name, uint64_t *value) {
  if (int code = usable(device))
    return code;
  if (!name || !value)
    return fail(TB_E_USAGE, "tb_counter: name or value is null");
  Locked lock(device->lock);
  if (int code = usable(device))
    return code;
  tapeback_backend_counter counter = {};
  if (int code = findCounter(device, name, &counter))
    return code;
  Operation operation(device, PacketKind::CounterSnapshot);
  operation.record.address = counter.id;
  operation.issue();
  tapeback_backend_failure failure;
  uint64_t read = 0;
  int status;
  if (device->capabilities & TAPEBACK_BACKEND_CAP_COUNTERS) {
    status = startedSession().backend->counters(device->target, &counter.id, &read, 1, &failure);
  } else {
    status = startedSession().backend->read(device->target, counter.space, counter.offset, counter.width,
                                            &read, &failure);
    if (counter.width_bits < 64)
      read &= (uint64_t(1) << counter.width_bits) - 1;
  }
  int code = operation.finish(status, failure, read);
  if (code == TB_OK) {
    rememberRead(device->id, operation.sequence(), read);
    *value = read;
  }
  return code;
}
