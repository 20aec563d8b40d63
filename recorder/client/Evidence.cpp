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

/// One reading between two stamps, of `count` values into `values`: what `read` reads is the packet at
/// `addresses[0]`, and the others, read with it, are the packets behind it.
template <typename Read>
static bool reading(tb_device &device, PacketKind kind, const uint32_t *addresses, uint64_t *values,
                    uint32_t count, Read read) {
  tapeback_backend_failure failure;
  for (uint32_t i = 0; i < count && !device.evidenceFailed; ++i) {
    Operation operation(&device, kind);
    operation.record.origin = uint8_t(Origin::Recorder);
    operation.record.address = addresses[i];
    operation.issue();
    if (i == 0)
      device.evidenceFailed = read(&failure) != TAPEBACK_BACKEND_OK;
    operation.complete(device.evidenceFailed ? Completion::Failed : Completion::Done, values[i]);
  }
  return !device.evidenceFailed;
}

void takeEvidence(tb_device &device) {
  const capture::Device *described = describedBy(device);
  if (!described)
    return;
  device.evidenceTaken = ring::Producer::now();
  const tapeback_backend *backend = startedSession().backend;
  const capture::Table *table = startedSession().table();
  constexpr uint32_t atOnce = 64;
  uint32_t ids[atOnce] = {};
  uint64_t values[atOnce] = {};
  if ((device.capabilities & TAPEBACK_BACKEND_CAP_DEVICE_TIME) &&
      !reading(device, PacketKind::ClockSample, ids, values, 1, [&](tapeback_backend_failure *failure) {
        return backend->device_time(device.target, values, failure);
      }))
    return;
  const auto *counters =
      capture::elements<capture::Counter>(table, table->counters) + described->counters.first;
  for (uint32_t left = described->counters.count; left;) {
    const uint32_t count = left < atOnce ? left : atOnce;
    for (uint32_t i = 0; i < count; ++i)
      ids[i] = counters[i].id;
    if (!reading(device, PacketKind::CounterSnapshot, ids, values, count,
                 [&](tapeback_backend_failure *failure) {
                   return backend->counters(device.target, ids, values, count, failure);
                 }))
      return;
    counters += count;
    left -= count;
  }
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
