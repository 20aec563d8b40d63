#include "recorder/client/Evidence.h"
#include "recorder/client/Device.h"

namespace tapeback::client {

static const capture::Device *describedBy(const tb_device &device) {
  const capture::Table *table = startedSession().table();
  if (!table || device.evidenceFailed || !startedSession().producer.recording() ||
      !(device.capabilities & TAPEBACK_BACKEND_CAP_COUNTERS))
    return nullptr;
  const auto *described = capture::elements<capture::Device>(table, table->devices) + device.id;
  return described->counters.count ? described : nullptr;
}

bool wantsEvidence(const tb_device &device, uint32_t occasion) {
  const capture::Table *table = startedSession().table();
  return table && (table->evidence & occasion) && describedBy(device);
}

/// One reading between two stamps.
template <typename Read>
static bool reading(tb_device &device, PacketKind kind, uint64_t address, Read read) {
  Operation operation(&device, kind);
  operation.record.origin = uint8_t(Origin::Recorder);
  operation.record.address = address;
  operation.issue();
  tapeback_backend_failure failure;
  uint64_t value = 0;
  int status = read(&value, &failure);
  operation.complete(status == TAPEBACK_BACKEND_OK ? Completion::Done : Completion::Failed, value);
  device.evidenceFailed = status != TAPEBACK_BACKEND_OK;
  return !device.evidenceFailed;
}

void takeEvidence(tb_device &device) {
  const capture::Device *described = describedBy(device);
  if (!described)
    return;
  device.evidenceTaken = ring::Producer::now();
  const tapeback_backend *backend = startedSession().backend;
  const capture::Table *table = startedSession().table();
  if ((device.capabilities & TAPEBACK_BACKEND_CAP_DEVICE_TIME) &&
      !reading(device, PacketKind::ClockSample, 0, [&](uint64_t *value, tapeback_backend_failure *failure) {
        return backend->device_time(device.target, value, failure);
      }))
    return;
  const auto *counters =
      capture::elements<capture::Counter>(table, table->counters) + described->counters.first;
  for (uint32_t i = 0; i < described->counters.count; ++i)
    if (!reading(device, PacketKind::CounterSnapshot, counters[i].id,
                 [&](uint64_t *value, tapeback_backend_failure *failure) {
                   return backend->counter(device.target, counters[i].id, value, failure);
                 }))
      return;
}

void takeEvidenceInTime(tb_device &device) {
  // A trigger's `snapshot` is asked for by the collector; recordings without one do not come here for it.
  if (startedSession().producer.takeSnapshotRequest() ||
      ring::Producer::now() - device.evidenceTaken >= device.evidencePeriod)
    takeEvidence(device);
}

uint64_t evidencePeriod(const tb_device &device) {
  const capture::Table *table = startedSession().table();
  if (!table)
    return 0;
  // A trigger's `snapshot` is taken notice of without counters, too: so that its report can say why there is
  // none.
  constexpr uint64_t whenAsked = ~uint64_t(0) >> 1;
  return describedBy(device) || table->evidencePeriodNs == whenAsked ? table->evidencePeriodNs : 0;
}

} // namespace tapeback::client
