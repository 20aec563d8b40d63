// Which pages of the program's memory it has stored to: what the kernel knows of it.
#pragma once

#include "recorder/client/Array.h"
#include <cstdint>

namespace tapeback::client {

/// Watches ranges of this process's memory. The CPU's stores only: what a device, or another process through
/// a mapping of its own, writes there is not seen. One per process (soft-dirty bits are the process's); its
/// owner lets one thread in at a time, while any may store to the memory.
class DirtyPages {
public:
  enum class Kind {
    Scan, ///< PAGEMAP_SCAN over asynchronous userfaultfd write-protection (Linux 6.7): exact, whatever other
          ///< threads do meanwhile.
    SoftDirty, ///< /proc/self/pagemap and clear_refs: only while the process has one thread, because a store
               ///< between looking and clearing is lost; otherwise every page is said to be stored to.
    None,      ///< Every page is said to be stored to: whoever asks has to compare.
  };
  static const char *name(Kind kind);

  /// Takes the best kind that works here, tried with a store of its own (soft-dirty fails silently where the
  /// kernel was built without). `best` is for tests. Never fails: None always works.
  Kind start(Kind best = Kind::Scan);
  void stop();
  Kind kind() const { return how; }

  /// `start` is page-aligned, `bytes` a multiple of the page. False: no memory, or the kernel does not let
  /// this range be watched (it is then unknown to us).
  [[nodiscard]] bool add(void *start, uint64_t bytes);
  void remove(void *start);

  /// Calls visit(address, bytes) for each run of pages of [start, start + bytes) that may have been stored to
  /// since the last call that included them (or since add), and begins anew for them. The range lies in one
  /// that was added. False: the kernel failed; nothing can be said, and everything must be looked at.
  template <typename Visit>
  [[nodiscard]] bool collect(void *start, uint64_t bytes, Visit visit) {
    Array<Run> runs;
    bool told = collectRuns(reinterpret_cast<uintptr_t>(start), bytes, runs);
    for (const Run &run : runs)
      visit(reinterpret_cast<uint8_t *>(run.start), run.bytes); // NOLINT(performance-no-int-to-ptr)
    runs.release();
    return told;
  }

private:
  struct Run {
    uintptr_t start;
    uint64_t bytes;
  };
  struct Area {
    uintptr_t start;
    uint64_t bytes;
    uint64_t *dirty; ///< SoftDirty: a bit a page, for what was found while others were asked about.
  };

  bool startScan();
  bool startSoftDirty();
  bool works();
  bool protect(uintptr_t start, uint64_t bytes) const;
  bool collectRuns(uintptr_t start, uint64_t bytes, Array<Run> &runs);
  bool scan(uintptr_t start, uint64_t bytes, Array<Run> &runs) const;
  bool harvest();
  bool harvest(Area &area) const;
  bool softDirty(uintptr_t start, uint64_t bytes, Array<Run> &runs);

  Kind how = Kind::None;
  int pagemap = -1, faults = -1, clearRefs = -1;
  Array<Area> areas;
};

} // namespace tapeback::client
