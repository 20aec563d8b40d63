// The part of ShadowState that knows what was handed over in queues, and how far the host knows the device to
// be. Inside this folder only.
#pragma once

#include "hal/description/Description.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace tapeback {

/// Entries are numbered from 0 since the reset, as in Submit packets.
class QueueTracker {
public:
  /// Tells registers' values, as far as they are known.
  using RegisterLookup = llvm::function_ref<std::optional<uint64_t>(unsigned reg)>;
  /// A fence in host memory that the device is to write.
  struct Fence {
    uint64_t entry = 0, ordinal = 0; ///< Number of its entry, packet of that Submit.
    uint64_t address = 0, value = 0;
    unsigned width = 0;
    bool doubtful =
        false; ///< Its value may be there already: seeing it proves nothing until another was seen.
    bool overlaps(uint64_t first, uint64_t last) const {
      return address <= last && (first <= address || first - address < width);
    }
  };

  QueueTracker(const Description *description, size_t maxOutstanding);

  /// Whether Submits of that queue are followed here.
  bool has(uint64_t queue) const { return queue < queues.size(); }

  /// `count` is the packet's: its number. `now` is what lies at a fence's address (nothing: unknown).
  /// Returns the fence that the entry is, if it is one.
  const Fence *submitted(uint64_t ordinal, uint64_t queue, uint64_t count, uint64_t address,
                         llvm::ArrayRef<uint8_t> entry, RegisterLookup registers,
                         llvm::function_ref<std::optional<uint64_t>(uint64_t address, unsigned width)> now);
  /// Whether an entry with that content may change what lies inside the device in ways that no transfer
  /// tells.
  bool changesWindows(uint64_t queue, llvm::ArrayRef<uint8_t> entry) const;

  /// What was observed. Each returns true if a synchronisation point was: a fence seen, a queue drained.
  /// `passed` is called for every fence that is known to be past.
  using Passed = llvm::function_ref<void(const Fence &fence)>;
  bool sawRegister(unsigned reg, uint64_t value, RegisterLookup registers, Passed passed);
  /// A completion was seen: that entry is done, whatever comes before it.
  bool done(uint64_t queue, uint64_t entry);
  bool sawMemory(uint64_t address, llvm::ArrayRef<uint8_t> content, Passed passed);
  /// The host stored there: which fences have to be written anew.
  void stored(uint64_t address, uint64_t length, llvm::ArrayRef<uint8_t> content,
              llvm::function_ref<void(const Fence &fence)> visit);

  /// Whether a read of the register may ever tell something, and whether that value does now, as it is.
  bool listensTo(unsigned reg) const;
  bool maySee(unsigned reg, uint64_t value) const;
  /// Whether a write to the register may rewind a queue, or reset the device.
  bool heeds(unsigned reg) const;

  /// A description's reset condition.
  bool resets(unsigned reg, uint64_t mask, uint64_t value) const;
  void rewind(unsigned reg);
  void reset();
  void lost();

  bool idle() const;
  /// Anything since the reset: where the heads are is then not in the registers' shadow.
  bool untouched() const;
  /// True if an entry of another queue than this one may still change the device's windows.
  bool othersChangeWindows(uint64_t queue) const;
  bool isOutstanding(uint64_t queue, uint64_t entry) const;
  std::vector<std::string> names() const;

private:
  struct Entry {
    uint64_t number = 0;
    std::optional<uint64_t> index; ///< In the ring.
    bool changesWindows = false;
  };
  struct Queue {
    std::deque<Entry> entries; ///< Outstanding, oldest first.
    std::deque<Fence> fences;
    uint64_t submitted = 0, completed = 0;
    size_t changing = 0;    ///< Entries that change windows.
    bool uncertain = false; ///< After a loss: there may be more.
    bool used = false;
  };

  bool completeUpTo(Queue &queue, uint64_t number, Passed passed);
  void popFences(Queue &queue, uint64_t number, Passed passed);
  bool elsewhere(const Fence &fence, const Queue &own) const;
  void doubt(const Fence &past);

  const Description *description;
  size_t maxOutstanding, outstanding = 0;
  std::vector<Queue> queues;
  bool overflowed = false;
};

} // namespace tapeback
