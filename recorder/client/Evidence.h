// What the recorder reads by itself: counters and the device's clock, at markers, at fences and by time.
#pragma once

#include "recorder/ring/CaptureTable.h"

struct tb_device;

namespace tapeback::client {

/// True if the recording wants evidence of this device on that occasion: a bit of capture::Evidence.
bool wantsEvidence(const tb_device &device, uint32_t occasion);
/// Reads and records it, as packets of the recorder. Call with the device's lock held, after the operation
/// that is the occasion. A failure ends it for the device; the program is not told: its own next call fails.
void takeEvidence(tb_device &device);
/// The same if it is time again; called where the device's `evidencePeriod` is not 0.
void takeEvidenceInTime(tb_device &device);
/// Of a device that was just opened: after how many nanoseconds evidence is taken again; 0: not by time.
uint64_t evidencePeriod(const tb_device &device);

} // namespace tapeback::client
