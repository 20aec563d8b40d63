// Target: whatever can be driven — silicon, FPGA, RTL, a QEMU device, a model, or nothing at all.
//
// Threads: one at a time. Errors: every failure of the target itself is a Failure of class Target; a bad
// request (unknown space, wrong width) is class Usage. No call blocks for longer than its deadline plus the
// target's own operation timeout (option `timeout=MS` of every URI). After `target-died` every call fails
// with it.
#pragma once

#include "hal/TargetTypes.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <optional>

namespace tapeback {

class Target {
public:
  virtual ~Target() = default;

  virtual const TargetIdentity &identity() const = 0;
  virtual TargetCapabilities capabilities() const = 0;
  /// Register spaces this target has, in its order: TargetSpaceId is the index. Names as in descriptions
  /// ("bar0").
  virtual llvm::ArrayRef<TargetSpace> spaces() const = 0;
  /// Index of a space by name, or nothing.
  std::optional<TargetSpaceId> findSpace(llvm::StringRef name) const;

  /// One access of exactly `width` bytes (1, 2, 4, 8), never split or merged by the target layer.
  virtual llvm::Expected<uint64_t> read(TargetSpaceId space, uint64_t address, unsigned width) = 0;
  /// May be posted; flush() or any read on the same target completes it.
  virtual llvm::Error write(TargetSpaceId space, uint64_t address, unsigned width, uint64_t value) = 0;

  /// Carries out the operations in order and stops at the first failure, which is a Failure whose `where`
  /// names the operation's packet ("packet 1234"). Values read are put into the operations. `completed`
  /// (never null) says how many were carried out. The default calls read/write/writeMemory one by one.
  virtual llvm::Error submit(llvm::MutableArrayRef<TargetOperation> batch, size_t *completed);
  /// Completes posted writes and reports their failure.
  virtual llvm::Error flush() { return llvm::Error::success(); }

  /// Makes memory visible to the device. With `request.iova` set: there, or a failure with code
  /// "iova-unavailable".
  virtual llvm::Expected<MemoryRegion> map(const MapRequest &request) = 0;
  virtual llvm::Error unmap(uint64_t iova) = 0;
  virtual llvm::Error readMemory(uint64_t iova, llvm::MutableArrayRef<uint8_t> out) = 0;
  virtual llvm::Error writeMemory(uint64_t iova, llvm::ArrayRef<uint8_t> in) = 0;

  /// Waits until vector has fired since the last wait for it (coalescing), at most `deadlineNs` of host time
  /// (simulated targets: of device time, and the target's operation timeout of host time).
  /// fired == false: the deadline passed, which is not a failure of the target.
  virtual llvm::Expected<InterruptResult> waitInterrupt(uint32_t vector, uint64_t deadlineNs) = 0;
  /// Lets time pass: simulated targets advance their clock, real ones wait. Used between the reads of a poll.
  virtual llvm::Error advance(uint64_t nanoseconds) = 0;

  virtual llvm::Error reset(ResetKind kind) = 0;
  /// Nothing more will be asked: gives what is still under way the time to end, well or not. Bounded by the
  /// target's operation timeout.
  virtual llvm::Error settle() { return llvm::Error::success(); }
  /// Of targets that are a program started for the purpose.
  virtual std::optional<MachineReport> machineReport() { return std::nullopt; }
  virtual llvm::Expected<uint64_t> counter(uint32_t id);
  /// Several, read as close together as the target can: `values` gets as many as there are `ids`.
  virtual llvm::Error counters(llvm::ArrayRef<uint32_t> ids, llvm::MutableArrayRef<uint64_t> values);
  virtual llvm::Expected<uint64_t> deviceTime();

  /// Side-effect-free look into a device-internal window named in the description ("buffer"). Only with
  /// capabilities().peek; others fail with code "unsupported". `cost` in capabilities says if it is free.
  virtual llvm::Error peek(llvm::StringRef window, uint64_t offset, llvm::MutableArrayRef<uint8_t> out);

  /// Snapshots are numbers, valid until released or the target is destroyed; at most
  /// capabilities().maxSnapshots. They hold everything: the device, mapped memory and its mappings (a restore
  /// brings them back at the same host pointers), and interrupts that were not waited for.
  virtual llvm::Expected<uint64_t> snapshot();
  virtual llvm::Error restore(uint64_t snapshot);
  virtual llvm::Error releaseSnapshot(uint64_t snapshot);

  /// A waveform or log of what follows, written to `path` until endTrace(); one at a time. Takes no device
  /// time. Usage failure "refused-by-model" if the file cannot be written.
  virtual llvm::Error beginTrace(llvm::StringRef path);
  virtual llvm::Error endTrace();
};

/// Opens "scheme:rest?key=value&key=value". The table of schemes is in TargetTable.cpp; unknown scheme,
/// unknown option, or an option's bad value → Usage failure that lists what there is.
llvm::Expected<std::unique_ptr<Target>> openTarget(llvm::StringRef uri);

/// One row per scheme for help texts and `tapeback targets`.
struct TargetScheme {
  const char *scheme;
  const char *syntax;
  const char *summary;
};
llvm::ArrayRef<TargetScheme> targetSchemes();

} // namespace tapeback
