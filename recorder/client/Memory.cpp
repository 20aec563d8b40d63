// Device-visible memory: allocation, access, fences in memory, ownership.
#include "recorder/client/Device.h"
#include "recorder/client/Evidence.h"
#include <cstdlib>
#include <cstring>

using namespace tapeback;
using namespace tapeback::client;

/// Fresh memory is zero, on the tape as well: a replay poisons its memory first. In pieces, so that their
/// content is stored once.
static int zero(tb_device *device, const Region &region) {
  constexpr uint64_t piece = 1 << 20;
  static const uint8_t zeroes[64 << 10] = {};
  if (region.host)
    memset(region.host, 0, region.size);
  for (uint64_t at = 0; !region.host && at < region.size; at += sizeof(zeroes)) {
    tapeback_backend_failure failure;
    uint64_t bytes = region.size - at < sizeof(zeroes) ? region.size - at : sizeof(zeroes);
    if (int status =
            session().backend->write_memory(device->target, region.iova + at, zeroes, bytes, &failure))
      return failBackend(status, failure);
  }
  uint64_t limit = session().producer.captureLimit();
  for (uint64_t at = 0; at < region.size;) {
    ring::Record record = blankRecord(device, PacketKind::MemoryWrite);
    record.address = region.iova + at;
    record.length = region.size - at < piece ? region.size - at : piece;
    if (at >= limit) {
      record.length = region.size - at;
      record.flags = NotCaptured;
      event(record);
      break;
    }
    eventWithMemory(device, record);
    at += record.length;
  }
  return TB_OK;
}

int tb_alloc(tb_device *device, size_t size, size_t alignment, uint64_t *iova, void **pointer) {
  if (int code = usable(device))
    return code;
  if (!iova)
    return fail(TB_E_USAGE, "tb_alloc: iova is null");
  if (size == 0)
    return fail(TB_E_USAGE, "tb_alloc: a size of 0");
  if (alignment == 0)
    alignment = 4096;
  if (alignment & (alignment - 1))
    return fail(TB_E_USAGE, "tb_alloc: an alignment of %zu is no power of two", alignment);
  Locked lock(device->lock);
  if (int code = usable(device))
    return code;
  if (!(device->capabilities & TAPEBACK_BACKEND_CAP_MEMORY))
    return fail(TB_E_UNSUPPORTED, "device '%s' cannot see memory", device->alias);
  Operation operation(device, PacketKind::MemoryMap);
  operation.record.length = size;
  operation.issue();
  tapeback_backend_region mapped = {};
  tapeback_backend_failure failure;
  int status =
      session().backend->map(device->target, size, alignment < 4096 ? 4096 : alignment, &mapped, &failure);
  if (status == TAPEBACK_BACKEND_OK) {
    operation.record.address = mapped.iova;
    operation.record.length = mapped.size;
  }
  if (int code = operation.finish(status, failure))
    return code;
  Region region = {mapped.iova, mapped.size, static_cast<uint8_t *>(mapped.host)};
  int code = device->regions.push(region) ? zero(device, region) : fail(TB_E_NO_MEMORY, "out of memory");
  if (code != TB_OK)
    return code;
  device->follower.mapped(*device, region, session().producer.captureLimit());
  chooseShortcut(*device);
  *iova = region.iova;
  if (pointer)
    *pointer = region.host;
  return TB_OK;
}

int tb_free(tb_device *device, uint64_t iova) {
  if (int code = usable(device))
    return code;
  Locked lock(device->lock);
  if (int code = usable(device))
    return code;
  for (size_t i = 0; i < device->regions.size(); ++i) {
    if (device->regions[i].iova != iova)
      continue;
    Operation operation(device, PacketKind::MemoryUnmap);
    operation.record.address = iova;
    operation.record.length = device->regions[i].size;
    operation.issue();
    device->follower.unmapped(device->regions[i]);
    chooseShortcut(*device);
    tapeback_backend_failure failure;
    int status = session().backend->unmap(device->target, iova, &failure);
    device->regions.erase(i);
    return operation.finish(status, failure);
  }
  return fail(TB_E_USAGE, "tb_free: 0x%llx was not allocated by tb_alloc", (unsigned long long)iova);
}

static int checkRange(const tb_device *device, const char *function, uint64_t iova, uint64_t size) {
  if (size == 0)
    return fail(TB_E_USAGE, "%s: a size of 0", function);
  if (!findRegion(device, iova, size))
    return fail(TB_E_USAGE, "%s: [0x%llx, +0x%llx) is not memory of device '%s'", function,
                (unsigned long long)iova, (unsigned long long)size, device->alias);
  return TB_OK;
}

int tb_mem_read(tb_device *device, uint64_t iova, void *out, size_t size) {
  if (int code = usable(device))
    return code;
  if (!out)
    return fail(TB_E_USAGE, "tb_mem_read: out is null");
  Locked lock(device->lock);
  if (int code = usable(device))
    return code;
  if (int code = checkRange(device, "tb_mem_read", iova, size))
    return code;
  Operation operation(device, PacketKind::MemoryRead);
  operation.record.address = iova;
  operation.record.length = size;
  operation.issue();
  tapeback_backend_failure failure;
  int status = copyFromMemory(device, iova, out, size, &failure);
  if (status != TAPEBACK_BACKEND_OK)
    return operation.finish(status, failure);
  ring::Producer::Group group(session().producer);
  operation.complete(Completion::Done, 0, 0, out, size);
  if (operation.sequence())
    device->follower.sawMemory(*device, iova, out, size);
  return TB_OK;
}

int tb_mem_write(tb_device *device, uint64_t iova, const void *in, size_t size) {
  if (int code = usable(device))
    return code;
  if (!in)
    return fail(TB_E_USAGE, "tb_mem_write: in is null");
  Locked lock(device->lock);
  if (int code = usable(device))
    return code;
  if (int code = checkRange(device, "tb_mem_write", iova, size))
    return code;
  Operation operation(device, PacketKind::MemoryWrite);
  operation.record.address = iova;
  operation.record.length = size;
  operation.issue(in, size);
  tapeback_backend_failure failure;
  int status = copyToMemory(device, iova, in, size, &failure);
  if (operation.sequence())
    device->follower.stored(iova, in, size, size <= session().producer.captureLimit());
  return operation.finish(status, failure);
}

/// A look at a fence. What the device wrote before the fence is visible after the load that saw it.
static int loadWord(tb_device *device, uint64_t iova, unsigned width, uint64_t *word,
                    tapeback_backend_failure *failure) {
  const Region *region = findRegion(device, iova, width);
  if (!region || !region->host || iova % width)
    return copyFromMemory(device, iova, word, width, failure);
  const uint8_t *at = region->host + (iova - region->iova);
  switch (width) {
  case 1: *word = __atomic_load_n(at, __ATOMIC_ACQUIRE); break;
  case 2: *word = __atomic_load_n(reinterpret_cast<const uint16_t *>(at), __ATOMIC_ACQUIRE); break;
  case 4: *word = __atomic_load_n(reinterpret_cast<const uint32_t *>(at), __ATOMIC_ACQUIRE); break;
  default: *word = __atomic_load_n(reinterpret_cast<const uint64_t *>(at), __ATOMIC_ACQUIRE); break;
  }
  return TAPEBACK_BACKEND_OK;
}

int tb_wait_mem(tb_device *device, uint64_t iova, unsigned width, uint64_t mask, uint64_t expected,
                uint64_t deadline, uint64_t *value) {
  if (int code = usable(device))
    return code;
  if (width != 1 && width != 2 && width != 4 && width != 8)
    return fail(TB_E_USAGE, "tb_wait_mem: a width of %u bytes; there are 1, 2, 4 and 8", width);
  if (expected & ~mask)
    return fail(TB_E_USAGE, "tb_wait_mem: expected has bits outside mask: it can never hold");
  device->lock.lock();
  int code = usable(device);
  if (code == TB_OK)
    code = checkRange(device, "tb_wait_mem", iova, width);
  if (code != TB_OK) {
    device->lock.unlock();
    return code;
  }
  Operation operation(device, PacketKind::MemoryWait);
  operation.record.address = iova;
  operation.record.width = uint8_t(width);
  operation.record.mask = mask;
  operation.record.expected = expected;
  operation.record.deadline = deadline;
  operation.issue();
  Pace pace(device, deadline);
  tapeback_backend_failure failure;
  uint64_t last = 0, count = 0;
  for (;;) {
    bool over = pace.over();
    uint64_t word = 0;
    int status = loadWord(device, iova, width, &word, &failure);
    last = word;
    ++count;
    bool holds = status == TAPEBACK_BACKEND_OK && (last & mask) == expected;
    if (status == TAPEBACK_BACKEND_OK && !holds && !over) {
      status = session().backend->advance(device->target, pace.step(), &failure);
      if (status == TAPEBACK_BACKEND_OK) {
        device->lock.pass();
        code = usable(device);
        if (code == TB_OK)
          code = checkRange(device, "tb_wait_mem", iova, width); // It may have been freed meanwhile.
        if (code == TB_OK)
          continue;
        operation.complete(Completion::Failed, last, count);
        break;
      }
    }
    if (status != TAPEBACK_BACKEND_OK) {
      code = operation.finish(status, failure, last);
      break;
    }
    {
      ring::Producer::Group group(session().producer);
      operation.complete(holds ? Completion::Done : Completion::TimedOut, last, count);
      rememberRead(device->id, operation.sequence(), last);
      if (operation.sequence())
        device->follower.sawMemory(*device, iova, &last, width);
    }
    if (holds && wantsEvidence(*device, capture::AtFences))
      takeEvidence(*device);
    else if (device->evidencePeriod)
      takeEvidenceInTime(*device);
    code = holds ? TB_OK : fail(TB_E_TIMEOUT, "tb_wait_mem: still 0x%llx", (unsigned long long)last);
    break;
  }
  device->lock.unlock();
  if (value)
    *value = last;
  return code;
}

namespace tapeback::client {

int acquire(tb_device *device, uint64_t iova, void *copy, size_t size, uint64_t *sequence) {
  if (int code = usable(device))
    return code;
  Locked lock(device->lock);
  if (int code = usable(device))
    return code;
  if (int code = checkRange(device, "tb_acquire", iova, size))
    return code;
  Operation operation(device, PacketKind::Acquire);
  operation.record.address = iova;
  operation.record.length = size;
  operation.issue();
  tapeback_backend_failure failure;
  const Region *region = findRegion(device, iova, size);
  const void *content = copy;
  void *own = nullptr;
  int status = TAPEBACK_BACKEND_OK;
  if (!copy && region->host) {
    content = region->host + (iova - region->iova);
  } else {
    if (!copy && operation.sequence()) {
      // Only the recording wants the content.
      content = copy = own = malloc(size);
      if (!own)
        return operation.finish(TAPEBACK_BACKEND_E_NO_MEMORY, {"out-of-memory", "out of memory"});
    }
    if (copy)
      status = copyFromMemory(device, iova, copy, size, &failure);
  }
  int code = TB_OK;
  if (status != TAPEBACK_BACKEND_OK) {
    code = operation.finish(status, failure);
  } else {
    ring::Producer::Group group(session().producer);
    operation.complete(Completion::Done, 0, 0, content, size);
    device->follower.acquired(*device, iova, size, operation.sequence() ? content : nullptr);
  }
  free(own);
  if (sequence)
    *sequence = operation.sequence();
  return code;
}

} // namespace tapeback::client

int tb_acquire(tb_device *device, uint64_t iova, size_t size) {
  return acquire(device, iova, nullptr, size, nullptr);
}

int tb_publish(tb_device *device, uint64_t iova, size_t size) {
  if (int code = usable(device))
    return code;
  Locked lock(device->lock);
  if (int code = usable(device))
    return code;
  if (int code = checkRange(device, "tb_publish", iova, size))
    return code;
  ring::Record record = blankRecord(device, PacketKind::MemoryWrite);
  record.address = iova;
  record.length = size;
  eventWithMemory(device, record);
  if (device->follower.followsMemory())
    device->follower.published(*device, iova, size);
  return TB_OK;
}

int tb_wait_irq(tb_device *device, uint32_t vector, uint64_t deadline, uint64_t *count) {
  if (int code = usable(device))
    return code;
  device->lock.lock();
  int code = usable(device);
  if (code == TB_OK && !(device->capabilities & TAPEBACK_BACKEND_CAP_INTERRUPTS))
    code = fail(TB_E_UNSUPPORTED, "device '%s' has no interrupts", device->alias);
  if (code != TB_OK) {
    device->lock.unlock();
    return code;
  }
  Operation operation(device, PacketKind::Interrupt);
  operation.record.address = vector;
  operation.record.deadline = deadline;
  operation.issue();
  // In slices: others may use the device meanwhile, and what we wait for may be their doing.
  Pace pace(device, deadline);
  tapeback_backend_failure failure;
  uint64_t pending = 0;
  for (;;) {
    bool over = pace.over();
    int status =
        session().backend->wait_interrupt(device->target, vector, over ? 0 : pace.step(), &pending, &failure);
    if (status != TAPEBACK_BACKEND_OK) {
      code = operation.finish(status, failure);
      break;
    }
    if (pending || over) {
      operation.complete(pending ? Completion::Done : Completion::TimedOut, 0, pending);
      code = pending ? TB_OK : fail(TB_E_TIMEOUT, "tb_wait_irq: no interrupt on vector %u", vector);
      break;
    }
    device->lock.pass();
    code = usable(device);
    if (code != TB_OK) {
      operation.complete(Completion::Failed);
      break;
    }
  }
  device->lock.unlock();
  if (count)
    *count = pending;
  return code;
}
