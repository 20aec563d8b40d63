// Rows of bytes in memory, as packets tell of them.
#pragma once

#include "format/Packet.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <algorithm>

namespace tapeback {

/// `count` rows of `bytes` each, row r at address + r * stride. Any values: a tape may say anything.
struct RowRange {
  uint64_t address = 0, bytes = 0, count = 1, stride = 0;

  /// Of a packet whose rows have that address and stride.
  static RowRange of(uint64_t address, uint64_t stride, const PacketExtra &extra) {
    if (extra.count <= 1 || extra.length / extra.count == 0)
      return {address, extra.length, 1, 0};
    return {address, extra.length / extra.count, extra.count, stride};
  }
  bool empty() const { return bytes == 0; }
  /// Last byte of the last row, cut at the end of the address space.
  uint64_t last() const {
    uint64_t top = ~uint64_t(0) - address;
    if (count > 1 && stride > top / (count - 1))
      return ~uint64_t(0);
    uint64_t behind = (count - 1) * stride;
    return bytes - 1 > top - behind ? ~uint64_t(0) : address + behind + (bytes - 1);
  }
  bool overlaps(uint64_t first, uint64_t end) const { return !empty() && address <= end && first <= last(); }

  /// Calls visit(first, last) for each row. So many rows that looking at each would cost too much are visited
  /// as one range, as are rows without gaps.
  void visit(llvm::function_ref<void(uint64_t first, uint64_t last)> visit) const {
    if (empty())
      return;
    if (count == 1 || stride <= bytes || count > maxVisited)
      return visit(address, last());
    for (uint64_t r = 0; r < count; ++r) {
      uint64_t behind = r * stride;
      if (r && behind / r != stride)
        return;
      if (behind > ~uint64_t(0) - address)
        return;
      uint64_t first = address + behind;
      visit(first, bytes - 1 > ~uint64_t(0) - first ? ~uint64_t(0) : first + (bytes - 1));
    }
  }
  /// Calls visit(address, part) for each row's part of `content`, as far as it goes.
  void visitContent(llvm::ArrayRef<uint8_t> content,
                    llvm::function_ref<void(uint64_t address, llvm::ArrayRef<uint8_t> part)> visit) const {
    for (uint64_t r = 0; r < count && !content.empty(); ++r) {
      size_t part = size_t(std::min<uint64_t>(bytes, content.size()));
      if (part == 0 || (r && (r * stride) / r != stride) || r * stride > ~uint64_t(0) - address)
        return;
      visit(address + r * stride, content.take_front(part));
      content = content.drop_front(part);
    }
  }

private:
  static constexpr uint64_t maxVisited = 65536;
};

} // namespace tapeback
