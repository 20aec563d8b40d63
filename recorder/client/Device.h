// A device that the program has opened, and the recording of operations on it.
#pragma once

#include "format/Packet.h"
#include "recorder/client/Array.h"
#include "recorder/client/Follower.h"
#include "recorder/client/Session.h"

namespace tapeback::client {

constexpr unsigned maxDevices = capture::maxDevices;
constexpr unsigned maxNameBytes = 255;

struct DeviceSpace {
  char name[capture::nameBytes];
  uint64_t size;
};

/// Device-visible memory of the program. `host` is null if the target has no coherent view of it.
struct Region {
  uint64_t iova, size;
  uint8_t *host;
};

/// Whether register accesses may take a shortcut: if they are of that space, the device's first. A word with
/// a name in it and which of its bytes count, so that the calls that take one (most of all calls) find out by
/// one comparison. Looked at with the lock announced, changed with it held.
class Shortcut {
public:
  bool isFor(uint64_t word) const {
    return (word & mask.load(std::memory_order_relaxed)) == name.load(std::memory_order_relaxed);
  }
  void close() {
    mask.store(0, std::memory_order_relaxed);
    name.store(1, std::memory_order_relaxed); // Nothing masked by 0 is 1.
  }
  /// Stays closed for a space whose name is longer than seven characters.
  void open(const char *space);

private:
  std::atomic<uint64_t> name{1}, mask{0};
};

} // namespace tapeback::client

/// The C API's handle: one per alias, reused when the alias is opened again, never freed (a late call on a
/// closed device is refused, not undefined). `lock` is held for each access of the target, so that the order
/// of the records is the order at the device; waits release it between their looks.
struct tb_device {
  tapeback::client::Shortcut unrecorded; ///< To the target, and that is all: this process is not recorded.
  /// One record, and nothing around it: no description to follow, no memory to look at.
  tapeback::client::Shortcut recorded;
  uint16_t id = 0;
  const tapeback_backend *backend = nullptr;
  tapeback_backend_target *target = nullptr;
  decltype(tapeback_backend::read) readTarget = nullptr; ///< The backend's, at hand.
  decltype(tapeback_backend::write) writeTarget = nullptr;
  tapeback::client::DeviceLock lock;
  std::atomic<bool> open{false};
  bool failureNoted = false;
  bool evidenceFailed = false;
  uint64_t evidenceTaken = 0;  ///< When counters were last read by the recorder.
  uint64_t evidencePeriod = 0; ///< After how long they are again; 0: not by time.
  uint32_t capabilities = 0;
  char alias[tapeback::capture::nameBytes] = {};
  tapeback::client::Array<tapeback::client::DeviceSpace> spaces;
  tapeback::client::Array<tapeback::client::Region> regions;
  tapeback::client::Follower follower;
  tapeback_backend_failure failure = {}; ///< Of the last access that took a shortcut; with the lock.
};

namespace tapeback::client {

/// TB_OK if the device may be used by this process now. Call with the lock held where it matters.
inline int usable(const tb_device *device);
/// Index of a space by name (null: the first), or -1 with the error text set.
inline int findSpace(const tb_device *device, const char *name);
int notUsable(const tb_device *device);
int noSuchSpace(const tb_device *device, const char *name);
/// Decides on shortcuts when one is opened, or its memory changes. Call with the lock held.
void chooseShortcut(tb_device &device);
void closeShortcuts(tb_device &device);
/// In a child of fork().
void endShortcuts();
/// The region that holds all of [iova, iova + size), or null. `size` may be 0.
const Region *findRegion(const tb_device *device, uint64_t iova, uint64_t size);

/// One operation on its way: issue, then complete. Neither does anything while the process is not recorded.
class Operation {
public:
  Operation(tb_device *device, PacketKind kind);
  ring::Record record; ///< To be filled in before issue(); complete() starts from it.

  void issue(const void *payload = nullptr, uint64_t bytes = 0);
  void complete(Completion completion, uint64_t value = 0, uint64_t count = 0, const void *payload = nullptr,
                uint64_t bytes = 0);
  /// Completes by the backend's status; a failure is noted and becomes the thread's error. Returns a
  /// tb_status.
  int finish(int status, const tapeback_backend_failure &failure, uint64_t value = 0);
  /// The operation's name for links; 0 if it is not recorded.
  uint64_t sequence() const { return underway.name; }

private:
  ring::Access access() const;

  tb_device *device;
  ring::IssuedAccess underway;
};

/// True while the process is recorded; otherwise what is about to be done is counted if it should have been.
inline bool recordingNow() {
  Session &current = startedSession();
  if (current.producer.recording()) [[likely]]
    return true;
  if (current.table())
    current.producer.countUnrecorded();
  return false;
}
/// An operation that failed: noted if it is the device's first, and the thread's error. Returns a tb_status.
int operationFailed(tb_device *device, uint64_t name, int status, const tapeback_backend_failure &failure);

/// An event: a packet without duration. Returns its sequence.
uint64_t event(const ring::Record &record, const void *payload = nullptr, uint64_t bytes = 0);
/// A record with the fields that every packet of `device` has.
ring::Record blankRecord(const tb_device *device, PacketKind kind);
/// An event whose payload is the present content of device-visible memory; NotCaptured if it cannot be had.
/// Call with the device's lock held.
uint64_t eventWithMemory(tb_device *device, ring::Record record);

/// Reads memory through the host's view or the target. Call with the lock held. Returns a backend status.
int copyFromMemory(tb_device *device, uint64_t iova, void *out, uint64_t size,
                   tapeback_backend_failure *failure);
int copyToMemory(tb_device *device, uint64_t iova, const void *in, uint64_t size,
                 tapeback_backend_failure *failure);
/// tb_acquire; `copy`, if not null, gets the content. Call without the lock.
int acquire(tb_device *device, uint64_t iova, void *copy, size_t size, uint64_t *sequence);

/// The pace of a wait: how long to let pass between looks, and when the deadline is over. Simulated targets
/// have their own time, and parts of some (QEMU's threads) run in real time: a deadline is over when it is so
/// in device time and, up to a second, in host time as well.
class Pace {
public:
  Pace(const tb_device *device, uint64_t deadlineNs)
      : deadline(deadlineNs), simulated(device->capabilities & TAPEBACK_BACKEND_CAP_DEVICE_TIME),
        start(ring::Producer::now()) {}
  bool over() const;
  /// How much to let pass now; the caller must, and it is counted.
  uint64_t step(uint64_t longest = 10'000'000);

private:
  uint64_t deadline;
  bool simulated;
  uint64_t start, passed = 0;
};

inline int usable(const tb_device *device) {
  if (device && !forked() && device->open.load(std::memory_order_acquire)) [[likely]]
    return TB_OK;
  return notUsable(device);
}

inline int findSpace(const tb_device *device, const char *name) {
  if (!name)
    return device->spaces.size() ? 0 : noSuchSpace(device, name);
  for (size_t i = 0; i < device->spaces.size(); ++i) {
    // Names are short: a call costs more than comparing them here.
    const char *known = device->spaces[i].name, *at = name;
    while (*known && *known == *at)
      ++known, ++at;
    if (*known == *at)
      return int(i);
  }
  return noSuchSpace(device, name);
}

} // namespace tapeback::client
