#include "recorder/client/Device.h"
#include "recorder/client/Gaps.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tapeback::client {

int notUsable(const tb_device *device) {
  if (!device)
    return fail(TB_E_USAGE, "the device is null");
  if (forked())
    return fail(TB_E_FORKED, "device '%s' was opened before fork(); a child process must not use it",
                device->alias);
  if (!device->open.load(std::memory_order_acquire))
    return fail(TB_E_USAGE, "device '%s' is closed", device->alias);
  return TB_OK;
}

int noSuchSpace(const tb_device *device, const char *name) {
  fail(TB_E_USAGE, "device '%s' has no register space '%s'", device->alias, name ? name : "(first)");
  return -1;
}

void Shortcut::open(const char *space) {
  const size_t length = strlen(space);
  uint64_t word = 0;
  if (length >= sizeof(word))
    return;
  memcpy(&word, space, length); // Zeroes behind it.
  name.store(word, std::memory_order_relaxed);
  mask.store(length == 7 ? ~uint64_t(0) : (uint64_t(1) << (8 * (length + 1))) - 1, std::memory_order_relaxed);
}

void closeShortcuts(tb_device &device) {
  device.unrecorded.close();
  device.recorded.close();
}

void chooseShortcut(tb_device &device) {
  closeShortcuts(device);
  if (!device.open.load(std::memory_order_relaxed) || gapTable || forked() || !device.spaces.size())
    return;
  if (!startedSession().table())
    device.unrecorded.open(device.spaces[0].name);
  else if (!device.follower.followsWrites() && !device.follower.hasQueues() && !device.evidencePeriod)
    device.recorded.open(device.spaces[0].name);
}

const Region *findRegion(const tb_device *device, uint64_t iova, uint64_t size) {
  for (const Region &region : device->regions)
    if (iova >= region.iova && iova - region.iova <= region.size &&
        size <= region.size - (iova - region.iova))
      return &region;
  return nullptr;
}

ring::Record blankRecord(const tb_device *device, PacketKind kind) {
  ring::Record record = {};
  record.kind = uint8_t(kind);
  record.device = device->id;
  record.thread = threadNumber();
  return record;
}

uint64_t event(const ring::Record &record, const void *payload, uint64_t bytes) {
  if (!recordingNow())
    return 0;
  ring::Record copy = record;
  copy.type = ring::RecordType::Event;
  return startedSession().producer.append(copy, payload, bytes);
}

int copyFromMemory(tb_device *device, uint64_t iova, void *out, uint64_t size,
                   tapeback_backend_failure *failure) {
  const Region *region = findRegion(device, iova, size);
  if (region && region->host) {
    memcpy(out, region->host + (iova - region->iova), size);
    return TAPEBACK_BACKEND_OK;
  }
  return startedSession().backend->read_memory(device->target, iova, out, size, failure);
}

int copyToMemory(tb_device *device, uint64_t iova, const void *in, uint64_t size,
                 tapeback_backend_failure *failure) {
  const Region *region = findRegion(device, iova, size);
  if (region && region->host) {
    memcpy(region->host + (iova - region->iova), in, size);
    return TAPEBACK_BACKEND_OK;
  }
  return startedSession().backend->write_memory(device->target, iova, in, size, failure);
}

uint64_t eventWithMemory(tb_device *device, ring::Record record) {
  Session &current = startedSession();
  if (!recordingNow())
    return 0;
  const Region *region = record.length ? findRegion(device, record.address, record.length) : nullptr;
  if (!region) {
    record.flags |= NotCaptured;
    return event(record);
  }
  if (region->host)
    return event(record, region->host + (record.address - region->iova), record.length);
  uint64_t bytes = record.length;
  if (bytes > current.producer.captureLimit()) {
    bytes = current.producer.captureLimit();
    record.flags |= Truncated;
  }
  void *copy = malloc(bytes ? bytes : 1);
  tapeback_backend_failure failure;
  if (!copy || current.backend->read_memory(device->target, record.address, copy, bytes, &failure) != 0) {
    free(copy);
    record.flags = uint8_t((record.flags & ~Truncated) | NotCaptured);
    return event(record);
  }
  uint64_t sequence = event(record, copy, bytes);
  free(copy);
  return sequence;
}

Operation::Operation(tb_device *device, PacketKind kind)
    : record(blankRecord(device, kind)), device(device) {}

ring::Access Operation::access() const {
  return ring::Access::make(PacketKind(record.kind), record.address, record.value, record.device,
                            record.space, record.thread, record.width, Origin(record.origin));
}

/// Kinds of which a completion says no more than whether, and a value.
static bool completesInPlace(const ring::Record &record) {
  switch (PacketKind(record.kind)) {
  case PacketKind::RegisterRead:
  case PacketKind::RegisterWrite:
  case PacketKind::CounterSnapshot:
  case PacketKind::ClockSample: return !record.time; // What is told afterwards was not issued just now.
  default: return false;
  }
}

void Operation::issue(const void *payload, uint64_t bytes) {
  if (record.origin == uint8_t(Origin::Program))
    operationBegins();
  if (!recordingNow())
    return;
  if (completesInPlace(record)) {
    underway = startedSession().producer.issueInPlace(access());
    return;
  }
  record.type = ring::RecordType::Issue;
  underway = {startedSession().producer.append(record, payload, bytes), nullptr, nullptr};
}

void Operation::complete(Completion completion, uint64_t value, uint64_t count, const void *payload,
                         uint64_t bytes) {
  if (!underway.name)
    return;
  if (underway.slot) {
    startedSession().producer.completeInPlace(underway, access(), completion, value);
    return;
  }
  ring::Record end = record;
  end.type = ring::RecordType::Complete;
  end.sequence = underway.name;
  end.time = 0;
  end.completion = uint8_t(completion);
  end.value = value;
  end.count = count;
  startedSession().producer.append(end, payload, bytes);
}

int operationFailed(tb_device *device, uint64_t name, int status, const tapeback_backend_failure &failure) {
  if (!device->failureNoted && name) {
    // Once a device: the first failure is the one to look at.
    device->failureNoted = true;
    char text[1200];
    int length =
        snprintf(text, sizeof(text), "device '%s': %s: %s", device->alias, failure.code, failure.message);
    ring::Record note = blankRecord(device, PacketKind::Tick);
    note.type = ring::RecordType::Note;
    note.link = name;
    startedSession().producer.append(note, text,
                                     uint64_t(length) < sizeof(text) ? uint64_t(length) : sizeof(text) - 1);
  }
  return failBackend(status, failure);
}

int Operation::finish(int status, const tapeback_backend_failure &failure, uint64_t value) {
  if (status == TAPEBACK_BACKEND_OK) {
    complete(Completion::Done, value);
    return TB_OK;
  }
  complete(Completion::Failed);
  return operationFailed(device, underway.name, status, failure);
}

bool Pace::over() const {
  if (deadline == ~uint64_t(0))
    return false;
  uint64_t host = ring::Producer::now() - start;
  if (!simulated)
    return host >= deadline;
  constexpr uint64_t second = 1'000'000'000;
  return passed >= deadline && host >= (deadline < second ? deadline : second);
}

uint64_t Pace::step(uint64_t longest) {
  uint64_t step = passed / 8;
  step = step < 1000 ? 1000 : step > longest ? longest : step;
  if (passed < deadline && step > deadline - passed)
    step = deadline - passed;
  passed += step;
  return step;
}

} // namespace tapeback::client
