// Follows the capture table: which memory the device is told to look at, and when the host learnt that it is
// done.
#pragma once

#include "recorder/client/Array.h"
#include "recorder/client/Queues.h"
#include "recorder/client/TrackedMemory.h"
#include "recorder/ring/CaptureTable.h"
#include <cstdint>

struct tb_device;

namespace tapeback::client {

/// One per device; used with the device's lock held. Does nothing without a table.
class Follower {
public:
  /// `device` may be null (not recorded). False: out of memory.
  [[nodiscard]] bool attach(const capture::Table *table, const capture::Device *device,
                            const tb_device &owner);
  /// The device forgot what it was told.
  void reset();

  /// Before a register write is issued: records the memory that the write tells the device to look at.
  void beforeWrite(tb_device &owner, uint32_t space, uint64_t offset, uint32_t width, uint64_t value);
  /// After a read: records what was transferred if the value says that it is done.
  void afterRead(tb_device &owner, uint32_t space, uint64_t offset, uint32_t width, uint64_t value);
  /// What a value read says about activities that this register ends, whether one is running or not: nothing,
  /// that one may still be running, or that one has ended, by which condition on the value. For programs that
  /// poll without saying so.
  enum class Look { Nothing, Waiting, Ended };
  Look look(uint32_t space, uint64_t offset, uint32_t width, uint64_t value, uint64_t &mask,
            uint64_t &expected) const;
  /// After an acquire: the transfers that it covers are done, and what fences in it say. `content` is what
  /// the host saw; null: it was not looked at.
  void acquired(tb_device &owner, uint64_t iova, uint64_t length, const void *content);
  /// After a look at memory: what fences in it say. True if there is one that was not seen before.
  bool sawMemory(tb_device &owner, uint64_t iova, const void *content, uint64_t length);
  /// Memory of the device came (the tape has its first `known` bytes as zero), went, or was stored to through
  /// the API (`captured`: the tape has it).
  void mapped(tb_device &owner, const Region &region, uint64_t known);
  void unmapped(const Region &region);
  void stored(uint64_t iova, const void *content, uint64_t length, bool captured);
  /// The same for what the host stored through its pointer and said so.
  void published(tb_device &owner, uint64_t iova, uint64_t length);
  void closed(const tb_device &owner);
  /// Whether beforeWrite() and afterRead() have anything to do.
  bool followsWrites() const { return values.size() || tracked.hasMemory(); }
  bool hasQueues() const { return queues.present(); }
  bool followsReads() const { return active.size() || queues.present(); }
  /// True if somebody wants to know what lies in memory.
  bool followsMemory() const { return queues.present() || tracked.present(); }

private:
  struct Active {
    uint32_t activity; ///< Index into Table::activities.
    bool toDevice;
    uint64_t address, length, sequence;
  };
  /// Transfers that were started and never seen to end are forgotten beyond this many, the oldest first.
  static constexpr size_t maxActive = 1024;

  void queuesWritten(tb_device &owner, const capture::Register &reg);
  void queuesRead(tb_device &owner, const capture::Register &reg, uint32_t index, uint64_t value);
  uint64_t valueOf(uint32_t reg) const;
  uint64_t baseOf(const capture::Place &place) const;
  uint64_t sizeOf(const capture::Place &place) const;
  void start(tb_device &owner, uint32_t activity, uint64_t value);
  void complete(tb_device &owner, const Active &active);
  /// Calls visit(register, index, shift) for each register that [offset, offset + width) of `space` touches;
  /// `shift` is the access's position in the register in bits (negative: it begins before it).
  template <typename Visit>
  void overlapping(uint32_t space, uint64_t offset, uint32_t width, Visit visit) const;

  const capture::Table *table = nullptr;
  const capture::Device *device = nullptr;
  Array<uint32_t> tableSpaces; ///< By the target's space: the table's index, or noSpace.
  Array<uint64_t> values;      ///< By register of the device: last value written.
  Array<Active> active;
  Queues queues;
  TrackedMemory tracked;
};

} // namespace tapeback::client
