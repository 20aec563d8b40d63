// Follows a device's queues: entries handed over, the lists and transfers they name, fences, and how far the
// host knows the device to be.
#pragma once

#include "recorder/client/Capture.h"
#include "recorder/client/Fifo.h"
#include "recorder/ring/CaptureTable.h"

namespace tapeback::client {

/// One per device, used with its lock held. Does nothing for a device whose description has no queues.
/// Bounds: entries of a queue, elements of a list, transfers and fences that are remembered, and bytes looked
/// at for one doorbell; what lies beyond is on the tape as not captured.
class Queues {
public:
  [[nodiscard]] bool attach(const capture::Table *table, const capture::Device *device);
  bool present() const { return count != 0; }
  /// The device forgot what it was told: nothing that was under way is known to have been done.
  void reset();

  void mapped(uint64_t iova, uint64_t size, uint64_t known);
  void unmapped(uint64_t iova);
  /// The host stored something, and the tape has it.
  void stored(uint64_t iova, const uint8_t *content, uint64_t bytes, bool captured);

  /// A doorbell is about to be written. Indices of queues are those of the capture table.
  void rung(tb_device &owner, uint32_t queue, uint64_t base, uint64_t size, uint64_t value);
  void rewound(uint32_t queue);
  /// The host saw how far the device is.
  void sawHead(tb_device &owner, uint32_t queue, uint64_t size, uint64_t value);
  void sawDone(tb_device &owner, uint32_t queue, uint32_t width, uint64_t value);
  void sawIdle(tb_device &owner);
  /// The host saw memory. True if it saw a fence.
  bool sawMemory(tb_device &owner, uint64_t iova, const void *content, uint64_t bytes);
  /// Where a ring of completions is, by its registers; indices are those of the capture table. Remembered,
  /// and its content published, once until the next reset.
  void ringIsAt(tb_device &owner, uint32_t ring, uint64_t base, uint64_t size);
  /// The same as rung() for a queue that a command created.
  void rungCreated(tb_device &owner, uint32_t queue, uint64_t value);
  /// The host is about to hand entries of a ring of completions back: it has seen them.
  void handedBack(tb_device &owner, uint32_t ring, uint64_t value);
  /// The host takes a range: transfers into it are done.
  void acquired(tb_device &owner, uint64_t iova, uint64_t bytes);

private:
  static constexpr uint64_t maxEntries = 65536, maxElements = 65536, maxTransfers = 65536, maxFences = 4096,
                            maxRechecks = 1024, maxBytes = uint64_t(4) << 30;

  struct Work {
    uint64_t entry; ///< Number of the queue's entry that asked for it.
    Transfer transfer;
    uint32_t content = capture::none; ///< Layout of what it brings; `offset`: of its first byte in that.
    uint64_t offset = 0;
  };
  struct Fence {
    uint64_t entry, address, value;
    uint32_t width;
    bool doubtful; ///< Its value may be there already: seeing it proves nothing until another was seen.
  };
  /// An entry that a completion will name.
  struct Tagged {
    uint64_t entry, tag;
    bool done;
  };
  /// A ring that an entry creates or deletes if it succeeds.
  struct Change {
    uint32_t queue; ///< Where the entry is.
    bool completions, creates;
    uint64_t entry, number, base, size;
  };
  struct Ring {
    const capture::Completions *description = nullptr;
    uint64_t base = 0, size = 0, head = 0; ///< size 0: there is none.
    uint64_t phase = 1;
  };
  struct Queue {
    const capture::Queue *description = nullptr;
    uint64_t base = 0, size = 0; ///< Of one that was created; size 0: there is none.
    Fifo<Tagged> tags;
    uint64_t tail = 0;
    uint64_t submitted = 0, completed = 0; ///< Entries since the reset.
    uint64_t oldest = 0;                   ///< Ring index of entry number `completed`, if there is one.
    bool indicesHold = true;               ///< Of the entries that are outstanding.
    Fifo<Work> works;
    Fifo<Fence> fences;
    Fifo<Transfer> rechecks;
    uint64_t outstanding() const { return submitted - completed; }
  };

  struct Following {
    tb_device &owner;
    Queue &queue;
    uint64_t entry;
    Budget budget{maxBytes};
    uint64_t elements = 0;
  };

  // QueueCompletions.cpp
  bool completionsIn(tb_device &owner, uint64_t iova, const uint8_t *content, uint64_t bytes);
  bool complete(tb_device &owner, Ring &ring);
  void commandDone(tb_device &owner, Queue &queue, Tagged &tagged);
  void start(tb_device &owner, Ring &ring, uint64_t base, uint64_t size);
  void noteChange(Following &following, const capture::Form &form, const uint8_t *entry);
  void carryOutChanges(tb_device &owner, uint32_t queue, uint64_t entry, bool succeeded);
  void inPages(Following &following, const capture::EntryTransfer &description, const uint8_t *entry,
               uint64_t bytes);
  void piece(Following &following, const capture::EntryTransfer &description, uint64_t address,
             uint64_t bytes, uint64_t offset);
  void takeCounters(tb_device &owner, const Work &work);
  Queue *find(uint32_t index);
  void submit(Following &following, uint64_t base, uint64_t index);
  const capture::Form *formOf(const capture::Layout &layout, const uint8_t *entry) const;
  void act(Following &following, const capture::Form &form, const uint8_t *entry);
  bool nextElement(Following &following, const capture::Layout &layout, uint64_t address, uint8_t *entry);
  void followList(Following &following, const capture::Form &form, uint64_t address);
  void transfer(Following &following, const capture::EntryTransfer &description, const uint8_t *entry);
  void fence(Following &following, const capture::Form &form, const uint8_t *entry);
  void completeUpTo(tb_device &owner, Queue &queue, uint64_t entries);
  void finish(tb_device &owner, Queue &queue, const Transfer &transfer);
  void seenOnce(const Fence &fence);
  bool elsewhere(const Fence &fence, const Queue &own) const;
  void had(const Rows &rows);

  const capture::Table *table = nullptr;
  uint32_t first = 0, count = 0; ///< Of the table's queues.
  Queue *queues = nullptr;
  capture::Range contentCounters = {};
  uint32_t firstRing = 0, ringCount = 0;
  Ring *rings = nullptr;
  Array<Change> changes;
  uint64_t remembered = 0;  ///< Works in all queues.
  Array<Transfer> doneWith; ///< Read by the device, and done with.
  Capture capture;
};

/// Of an entry's bytes: a field's value, and whether a condition on one holds (always if there is none).
uint64_t valueOf(const capture::Field &field, const uint8_t *entry);
bool holds(const capture::FieldCondition &condition, const uint8_t *entry);

} // namespace tapeback::client
