// Byte planes and the encodings that need no key.
#include "format/Columns.h"

#include <bit>
#include <cstring>

namespace tapeback {

size_t EncodedColumn::bytes() const {
  const size_t rows = planes ? planes->size() : residuals.size();
  switch (encoding) {
  case Encoding::Constant: return 8;
  case Encoding::DeltaPlanes: return 8 + 1 + size_t(std::popcount(mask)) * rows;
  case Encoding::Planes:
  case Encoding::KeyXor:
  case Encoding::KeyDelta:
  case Encoding::AfterIssue: break;
  }
  return 1 + size_t(std::popcount(mask)) * rows;
}

// Simple loops over restrict pointers: both compilers turn them into vector code.
static void writePlane(const uint64_t *__restrict values, size_t count, unsigned plane,
                       uint8_t *__restrict out) {
  const unsigned shift = 8 * plane;
  for (size_t i = 0; i < count; ++i)
    out[i] = static_cast<uint8_t>(values[i] >> shift);
}

void EncodedColumn::write(uint8_t *out) const {
  if (encoding == Encoding::Constant || encoding == Encoding::DeltaPlanes) {
    std::memcpy(out, &base, 8);
    out += 8;
    if (encoding == Encoding::Constant)
      return;
  }
  *out++ = mask;
  for (unsigned plane = 0; plane < 8; ++plane) {
    if (!(mask >> plane & 1))
      continue;
    if (planes) {
      std::memcpy(out, planes->plane(plane), planes->size());
      out += planes->size();
      continue;
    }
    writePlane(residuals.data(), residuals.size(), plane, out);
    out += residuals.size();
  }
}

void PlaneSet::clear(size_t mostRows) {
  rows = 0;
  planesUsed = 0;
  if (mostRows <= stride)
    return;
  stride = mostRows;
  memory.reset(new uint8_t[8 * stride]);
}

void PlaneSet::add(llvm::ArrayRef<uint64_t> values, uint64_t orOfAll) {
  const uint8_t needed = planeMask(orOfAll);
  for (unsigned plane = 0; plane < 8; ++plane) {
    const auto bit = static_cast<uint8_t>(1u << plane);
    uint8_t *out = memory.get() + plane * stride;
    if (needed & bit) {
      if (!(planesUsed & bit))
        std::memset(out, 0, rows);
      writePlane(values.data(), values.size(), plane, out + rows);
    } else if (planesUsed & bit) {
      std::memset(out + rows, 0, values.size());
    }
  }
  planesUsed |= needed;
  rows += values.size();
}

uint8_t planeMask(uint64_t orOfAll) {
  uint8_t mask = 0;
  for (unsigned plane = 0; plane < 8; ++plane)
    if (orOfAll >> (8 * plane) & 0xff)
      mask |= static_cast<uint8_t>(1u << plane);
  return mask;
}

EncodedColumn encodeColumn(uint16_t field, llvm::ArrayRef<uint64_t> values, std::vector<uint64_t> &scratch) {
  const uint64_t first = values.empty() ? 0 : values.front();
  uint64_t orRaw = 0, orDelta = 0, previous = first;
  scratch.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t code = zigzag(values[i] - previous);
    previous = values[i];
    scratch[i] = code;
    orDelta |= code;
    orRaw |= values[i];
  }
  if (orDelta == 0)
    return {field, Encoding::Constant, first, 0, {}};
  const uint8_t rawMask = planeMask(orRaw), deltaMask = planeMask(orDelta);
  if (std::popcount(deltaMask) < std::popcount(rawMask))
    return {field, Encoding::DeltaPlanes, first, deltaMask, scratch};
  return {field, Encoding::Planes, 0, rawMask, values};
}

bool decodePlanes(llvm::ArrayRef<uint8_t> data, llvm::MutableArrayRef<uint64_t> out) {
  if (data.empty())
    return false;
  const uint8_t mask = data.front();
  data = data.drop_front();
  if (data.size() != size_t(std::popcount(mask)) * out.size())
    return false;
  if (mask == 0) {
    std::fill(out.begin(), out.end(), 0);
    return true;
  }
  const size_t count = out.size();
  uint64_t *__restrict to = out.data();
  bool first = true;
  for (unsigned plane = 0; plane < 8; ++plane) {
    if (!(mask >> plane & 1))
      continue;
    const uint8_t *__restrict from = data.data();
    const unsigned shift = 8 * plane;
    if (first)
      for (size_t i = 0; i < count; ++i)
        to[i] = uint64_t(from[i]) << shift;
    else
      for (size_t i = 0; i < count; ++i)
        to[i] |= uint64_t(from[i]) << shift;
    first = false;
    data = data.drop_front(count);
  }
  return true;
}

bool decodeColumn(const ColumnView &column, llvm::MutableArrayRef<uint64_t> out) {
  llvm::ArrayRef<uint8_t> data = column.data;
  uint64_t base = 0;
  switch (static_cast<Encoding>(column.encoding)) {
  case Encoding::Planes: return decodePlanes(data, out);
  case Encoding::Constant:
    if (data.size() != 8)
      return false;
    std::memcpy(&base, data.data(), 8);
    std::fill(out.begin(), out.end(), base);
    return true;
  case Encoding::DeltaPlanes:
    if (data.size() < 8)
      return false;
    std::memcpy(&base, data.data(), 8);
    if (!decodePlanes(data.drop_front(8), out))
      return false;
    for (uint64_t &row : out)
      row = base += unzigzag(row);
    return true;
  case Encoding::KeyXor:
  case Encoding::KeyDelta:
  case Encoding::AfterIssue: break;
  }
  return false;
}

} // namespace tapeback
