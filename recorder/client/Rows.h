// What a transfer moves in memory: rows of bytes.
#pragma once

#include <cstdint>

namespace tapeback::client {

/// `count` rows of `bytes` bytes each, row r at address + r * stride. Neither is 0, and the last byte's
/// address is at most 2^64 - 1.
struct Rows {
  uint64_t address, bytes, count, stride;

  /// Rows that follow each other become one. False if the range makes no sense (empty, or past the end of
  /// the address space).
  static bool make(uint64_t address, uint64_t bytes, uint64_t count, uint64_t stride, Rows &out) {
    uint64_t last = 0, total = 0;
    if (bytes == 0 || count == 0 || __builtin_mul_overflow(bytes, count, &total) ||
        __builtin_mul_overflow(stride, count - 1, &last) || __builtin_add_overflow(last, bytes - 1, &last) ||
        __builtin_add_overflow(last, address, &last))
      return false;
    out = {address, bytes, count, stride};
    if (count == 1 || stride == bytes)
      out = {address, total, 1, 0};
    return true;
  }
  uint64_t total() const { return bytes * count; }
  uint64_t last() const { return address + (count - 1) * stride + (bytes - 1); }
  /// The same bytes as pieces that neither overlap nor touch: rows that do are one piece.
  Rows pieces() const {
    if (count > 1 && stride > bytes)
      return *this;
    return {address, last() - address + 1, 1, 0};
  }
  bool overlaps(uint64_t first, uint64_t length) const {
    if (length == 0 || first > last() || (first < address && length <= address - first))
      return false;
    if (count == 1 || stride <= bytes || first < address)
      return true;
    // In the gap behind a row?
    uint64_t at = (first - address) % stride;
    return at < bytes || length > stride - at;
  }
  /// May say yes where two combs pass through each other's gaps.
  bool mayOverlap(const Rows &other) const {
    return other.count == 1 ? overlaps(other.address, other.bytes)
           : count == 1     ? other.overlaps(address, bytes)
                            : overlaps(other.address, other.last() - other.address + 1);
  }
};

} // namespace tapeback::client
