// The collector's ring file: made, locked, mapped, and taken away again.
#pragma once

#include "recorder/ring/MappingGuard.h"
#include "recorder/ring/RingFormat.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace tapeback::ring {

class StampChoice;

struct RingOptions {
  uint64_t dataBytes =
      16 << 20; ///< Of the first lane, rounded up to a power of two; the others have a quarter.
  uint32_t chunkBytes = 64 << 10;
  uint64_t captureLimit = 64 << 20;
  bool dropWhenFull = false;
  bool monotonicStamps = false;        ///< Even if the processor's counter is fit.
  const StampChoice *stamps = nullptr; ///< Begun before, so that it need not be waited for; null: begun here.
  bool fullFences = false;             ///< Even if the collector could fence for the program.
  unsigned lanes = maxLanes;           ///< At least 2.
};

/// Owns the private directory (0700), the file in it (0600), the mapping and the lock whose presence tells
/// the program that the collector lives. All are released by the destructor; a killed collector leaves the
/// directory, which a later one removes. Moves: none. Threads: the mapping may be used from any.
class RingFile {
public:
  /// Makes the file and puts `table` into it. Errors are System failures.
  static llvm::Expected<std::unique_ptr<RingFile>> create(llvm::ArrayRef<uint8_t> table,
                                                          const RingOptions &options);
  /// The same in three steps, for who has other things to do while five thousand pages are allocated: makes
  /// the file, without a name that others look for; puts the table into it and gives it its name; and tells,
  /// before a program gets to know of it, whether the memory is there.
  static llvm::Expected<std::unique_ptr<RingFile>> reserve(const RingOptions &options);
  llvm::Error begin(llvm::ArrayRef<uint8_t> table);
  llvm::Error awaitMemory();
  /// The same in anonymous memory, for tests with both ends in one process.
  static llvm::Expected<std::unique_ptr<RingFile>> createAnonymous(llvm::ArrayRef<uint8_t> table,
                                                                   const RingOptions &options);
  /// What a killed collector left: a copy on write, so that the file stays as it is. Refuses one whose
  /// collector lives. Sizes are checked; everything else is the program's word. The file is not removed.
  static llvm::Expected<std::unique_ptr<RingFile>> openLeftBehind(const std::string &path);
  ~RingFile();
  RingFile(const RingFile &) = delete;
  RingFile &operator=(const RingFile &) = delete;

  Header &header() const { return *static_cast<Header *>(mapping); }
  unsigned laneCount() const { return layout.laneCount; }
  Lane &lane(unsigned index) const;
  Slot *slots(unsigned index) const;
  uint64_t slotCount(unsigned index) const { return layout.slotsOf(index); } ///< A power of two.
  uint64_t captureLimit() const { return layout.captureLimit; }
  /// As decided when it was made, not what the header says now.
  const ClockFacts &clock() const { return clockFacts; }
  const std::string &clockReason() const { return reason; }
  void *base() const { return mapping; }
  uint64_t bytes() const { return size; }
  const std::string &path() const { return filePath; } ///< Empty for anonymous ones.
  /// Somebody cut the file short, or it could not be given memory: what was there reads as zeros now.
  bool torn() const { return guard && guard->torn(); }
  /// Says which unfinished tape it is drained into. Before the program starts.
  void nameTape(const std::string &partial);

private:
  explicit RingFile(const RingOptions &options) : options(options) {}
  void plan(uint64_t tableBytes);
  llvm::Error map(llvm::ArrayRef<uint8_t> table);
  llvm::Error noMemory(int code) const;
  int allocateHead() const;
  int allocate() const;

  RingOptions options;
  std::string directory, filePath, reason;
  int fd = -1;
  void *mapping = nullptr;
  std::optional<MappingGuard> guard; ///< None for anonymous ones and those left behind.
  bool leftBehind = false;
  uint64_t size = 0;
  Layout layout = {};
  ClockFacts clockFacts = {};
  std::thread allocator;
  int allocation = 0; ///< What it came to: an errno, once `allocator` is joined.
};

/// Rings of killed collectors of this user whose unfinished tapes are still there: the ring's path, and the
/// tape's as it was named.
struct KeptRing {
  std::string path, partial;
};
std::vector<KeptRing> keptRings();
/// The ring that was drained into the tape at `partial`; empty if there is none.
std::string findRingOf(const std::string &partial);

/// Removes the directories of collectors that were killed. Never touches a living one's, and leaves the
/// newest few of less than a day that hold what no tape has (for `tapeback recover`), unless told otherwise.
/// Returns how many it removed.
unsigned removeStaleRings(bool evenUnread = false);

} // namespace tapeback::ring
