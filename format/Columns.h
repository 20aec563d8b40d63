// Columns of integers as bytes: differences that are mostly small, split into byte planes, the planes that
// are all zero left out. What remains is what lz4 is good at. SPEC.md, "Columns", has the byte layouts.
// Internal to format/.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <memory>
#include <vector>

namespace tapeback {

/// How a column's `data` becomes numbers. On tape: add at the end.
enum class Encoding : uint16_t {
  Constant = 0,    ///< u64: every row has it.
  Planes = 1,      ///< mask u8, then for each bit set in it a plane of `rows` bytes.
  DeltaPlanes = 2, ///< base u64, then planes of zigzag(row − row before); the row before the first is base.
  KeyXor = 3,      ///< Planes of row XOR the row before with the same key (first: the key's own value).
  KeyDelta = 4,    ///< Planes of zigzag(row − the row before with the same key).
  AfterIssue = 5,  ///< Planes of zigzag(row − the packet's issue time), or of zigzag(row) if it is pending.
};

constexpr uint64_t zigzag(uint64_t difference) {
  return (difference << 1) ^ (0 - (difference >> 63));
}
constexpr uint64_t unzigzag(uint64_t code) {
  return (code >> 1) ^ (0 - (code & 1));
}

/// The mask of planes that a set of numbers needs, from the OR of all of them.
uint8_t planeMask(uint64_t orOfAll);

/// The planes of a column that is made piece by piece, so that its numbers need not be kept: a plane begins
/// when a row first needs it. Reused from block to block.
class PlaneSet {
public:
  void clear(size_t mostRows);
  /// More rows; `orOfAll` is theirs.
  void add(llvm::ArrayRef<uint64_t> values, uint64_t orOfAll);
  uint8_t mask() const { return planesUsed; }
  size_t size() const { return rows; }
  const uint8_t *plane(unsigned n) const { return memory.get() + n * stride; }

private:
  std::unique_ptr<uint8_t[]> memory; ///< Eight planes of `stride` bytes, uninitialised where unused.
  size_t stride = 0, rows = 0;
  uint8_t planesUsed = 0;
};

/// One column ready to be written: `residuals` are the numbers whose planes are stored, unless the planes are
/// made already. Refers to its owner's memory.
struct EncodedColumn {
  uint16_t field = 0;
  Encoding encoding = Encoding::Constant;
  uint64_t base = 0; ///< Constant: the value; DeltaPlanes: the base.
  uint8_t mask = 0;  ///< Which planes are there.
  llvm::ArrayRef<uint64_t> residuals;
  const PlaneSet *planes = nullptr;

  size_t bytes() const;
  void write(uint8_t *out) const; ///< Exactly bytes() bytes.
};

/// The smaller of Constant, Planes and DeltaPlanes. `scratch` holds the residuals of DeltaPlanes and must
/// live as long as the result.
EncodedColumn encodeColumn(uint16_t field, llvm::ArrayRef<uint64_t> values, std::vector<uint64_t> &scratch);

/// A column's data as it lies in an untrusted block.
struct ColumnView {
  uint16_t field = 0;
  uint16_t encoding = 0;
  llvm::ArrayRef<uint8_t> data;
};

/// Decodes Constant, Planes and DeltaPlanes into out (any size). False if the data is not exactly as long as
/// it has to be, or the encoding is another.
bool decodeColumn(const ColumnView &column, llvm::MutableArrayRef<uint64_t> out);
/// Decodes only the planes (mask first): the residuals of the keyed encodings.
bool decodePlanes(llvm::ArrayRef<uint8_t> data, llvm::MutableArrayRef<uint64_t> out);

} // namespace tapeback
