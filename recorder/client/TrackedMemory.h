// Memory of a device of which nobody says what it reads when: what the program stored to is captured before a
// register write that may hand it over.
#pragma once

#include "recorder/client/Capture.h"

struct tb_device;

namespace tapeback::client {

struct Region;

/// One per device, used with its lock held. Does nothing for a device whose description tells (activities,
/// queues). Finds stores through the program's pointers by the kernel's knowledge of pages, or by comparing
/// with what the tape has; pages that did not change cost a look, not a copy. Costs twice the memory that
/// was handed over.
///
/// What cannot be told: where pages are compared (DirtyPages::Kind::None), bytes that the device wrote and
/// the program never took (tb_acquire) look like the host's. Where the kernel tells, they do not.
class TrackedMemory {
public:
  void attach(bool wanted);
  bool present() const { return isWanted; }
  /// There is memory to look at.
  bool hasMemory() const { return !capture.shadow.empty(); }

  /// The tape has its first `known` bytes as zero.
  void mapped(tb_device &owner, const Region &region, uint64_t known);
  /// Before the memory itself goes.
  void unmapped(const Region &region);
  /// The tape knows what lies there: the host stored it through the API, or took it from the device.
  void learn(uint64_t iova, const void *content, uint64_t bytes, bool captured);
  /// Before a register write that may hand memory over.
  void handOver(tb_device &owner);
  void closed(const tb_device &owner);

private:
  /// Bytes looked at for one register write; what lies beyond is captured at the next.
  static constexpr uint64_t maxBytes = uint64_t(4) << 30;

  void look(tb_device &owner, const Region &region, Budget &budget);

  bool isWatched(uint64_t iova) const;

  bool isWanted = false;
  Capture capture;
  Array<uint64_t> watched; ///< IOVAs of regions that the session's `pages` knows.
};

} // namespace tapeback::client
