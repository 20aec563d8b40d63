// What a flight history is made of: runs of encoded packets, and the contents that they refer to. Both are
// immutable once made, counted while they live, and shared with captures that are being written.
#pragma once

#include "format/Packet.h"
#include "llvm/ADT/ArrayRef.h"
#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

namespace tapeback {

/// How many bytes live. Shared by everything that is counted, which may outlive the history.
using LiveBytes = std::shared_ptr<std::atomic<uint64_t>>;

/// Counts so many bytes for as long as it lives.
class Counted {
public:
  Counted(LiveBytes live, uint64_t bytes) : live(std::move(live)), bytes(bytes) {
    this->live->fetch_add(bytes, std::memory_order_relaxed);
  }
  ~Counted() { live->fetch_sub(bytes, std::memory_order_relaxed); }
  Counted(const Counted &) = delete;
  Counted &operator=(const Counted &) = delete;

private:
  LiveBytes live;
  uint64_t bytes;
};

struct FlightContent {
  FlightContent(BlobId id, llvm::ArrayRef<uint8_t> content, const LiveBytes &live)
      : id(id), bytes(content.begin(), content.end()), counted(live, content.size() + overhead) {}
  static constexpr uint64_t overhead = 160; ///< Of the object and of what finds it, about.
  BlobId id;
  std::vector<uint8_t> bytes;
  Counted counted;
};
using FlightContentPointer = std::shared_ptr<const FlightContent>;

inline bool orderedById(const FlightContentPointer &a, const FlightContentPointer &b) {
  return std::pair(a->id.hi, a->id.lo) < std::pair(b->id.hi, b->id.lo);
}

/// Packets that follow each other, as a tape's block has them.
struct FlightChunk {
  FlightChunk(const LiveBytes &live, uint64_t bytes) : counted(live, bytes) {}
  uint64_t first = 0;
  uint32_t packets = 0;
  uint64_t latest = 0; ///< Issue time.
  std::vector<uint64_t> encoded;
  uint64_t encodedBytes = 0;
  std::vector<FlightContentPointer> contents; ///< Ordered by id.
  Counted counted;

  uint64_t end() const { return first + packets; }
  /// Null if no packet of this chunk refers to it.
  const FlightContent *content(BlobId id) const {
    auto found = std::lower_bound(
        contents.begin(), contents.end(), id, [](const FlightContentPointer &content, BlobId wanted) {
          return std::pair(content->id.hi, content->id.lo) < std::pair(wanted.hi, wanted.lo);
        });
    return found != contents.end() && (*found)->id == id ? found->get() : nullptr;
  }
};
using FlightChunkPointer = std::shared_ptr<const FlightChunk>;

} // namespace tapeback
