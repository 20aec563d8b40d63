// Sees every packet that a recording puts on the tape, in the order of the tape: live triggers.
#pragma once

#include "format/Packet.h"
#include "triggers/Evaluator.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <string>
#include <vector>

namespace tapeback {

/// What an observer wants done at this place of the tape, directly behind the packet that it has just seen.
struct ObserverWishes {
  std::vector<std::string> markers; ///< Marker packets of the recorder's own.
  bool stop = false;                ///< Recording ends here.
  std::string stopText;             ///< Why, for the mark on the tape.
  bool any() const { return stop || !markers.empty(); }
};

/// Called by the Collector on its own thread. A collector without an observer does nothing for it.
///
/// Packets are shown with packet(), except those that filterOf() says nobody waits for: a collector may tell
/// of a run of such by passed() instead, which costs next to nothing. It may also show them; the results are
/// the same.
class PacketObserver {
public:
  virtual ~PacketObserver() = default;

  /// Tables of the tape, as they grow. `index`: the device's place on the command line. Filters that were
  /// asked for before are void then.
  virtual void deviceOpened(uint16_t device, uint16_t index) = 0;
  virtual void spaceAdded(uint16_t id, llvm::StringRef name) = 0;
  virtual void clockAdded(uint8_t id, uint64_t ticksPerSecond) = 0;

  /// A packet is on the tape. `payload` is its content, empty if it has none.
  virtual void packet(uint64_t ordinal, const Packet &packet, const PacketExtra &extra,
                      llvm::ArrayRef<uint8_t> payload) = 0;
  /// Packets without extras that filterOf() does not let pass, in order.
  virtual void passed(uint64_t firstOrdinal, llvm::ArrayRef<Packet> packets) = 0;
  /// Time passed; a promise that no packet issued before `now` (host's clock) is put on the tape any more.
  virtual void tick(uint64_t now) = 0;
  /// The recording has ended: no packet follows.
  virtual void ended() = 0;

  /// Of the key (kind, device, space, address, width) of a packet: which values matter. The same for all
  /// packets of that key until filterGeneration() changes; null: none does.
  virtual const triggers::KeyFilter *filterOf(const Packet &packet) = 0;
  virtual uint64_t filterGeneration() const = 0;

  /// What is to be done now, behind the packet that was shown last; null: nothing. Taken by the call. The
  /// packets that are put for it are shown as well.
  virtual const ObserverWishes *takeWishes() { return nullptr; }
};

} // namespace tapeback
