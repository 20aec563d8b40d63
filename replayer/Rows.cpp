#include "replayer/Rows.h"
#include "format/Failure.h"
#include "replayer/DeviceBinding.h"
#include <algorithm>

namespace tapeback {

static bool hasRows(PacketKind kind) {
  return kind == PacketKind::MemoryWrite || kind == PacketKind::DmaDescriptor ||
         kind == PacketKind::DmaCompletion;
}

llvm::Expected<Rows> Rows::of(const Packet &packet, const PacketExtra &extra) {
  constexpr uint64_t mostRows = 1 << 16;
  Rows rows;
  rows.address = packet.address;
  rows.count = hasRows(packet.kind) && extra.count > 1 ? extra.count : 1;
  rows.rowBytes = extra.length / rows.count;
  rows.stride = rows.count > 1 ? extra.expected : 0;
  auto bad = [&](const char *why) {
    return failUsage("bad-rows", std::to_string(extra.length) + " bytes in " + std::to_string(rows.count) +
                                     " rows: " + why);
  };
  if (rows.count > mostRows)
    return bad("more rows than a replay follows");
  if (extra.length % rows.count)
    return bad("not the same number of bytes in each");
  if (rows.count > 1 && !rows.rowBytes)
    return bad("they are empty");
  uint64_t last = 0;
  if (__builtin_mul_overflow(rows.count - 1, rows.stride, &last) ||
      __builtin_add_overflow(last, rows.address, &last) ||
      __builtin_add_overflow(last, rows.rowBytes ? rows.rowBytes - 1 : 0, &last))
    return bad("they reach beyond the end of the address space");
  return rows;
}

std::optional<uint64_t> Rows::offsetOf(uint64_t place) const {
  for (uint64_t row = count; row-- > 0;)
    if (place - rowAddress(row) < rowBytes)
      return row * rowBytes + (place - rowAddress(row));
  return std::nullopt;
}

template <typename Memory>
static llvm::Error readRows(const Rows &rows, Memory &memory, llvm::MutableArrayRef<uint8_t> out) {
  for (uint64_t row = 0; row < rows.count && !out.empty(); ++row) {
    llvm::MutableArrayRef<uint8_t> piece = out.take_front(std::min<uint64_t>(rows.rowBytes, out.size()));
    if (llvm::Error error = memory.readMemory(rows.rowAddress(row), piece))
      return error;
    out = out.drop_front(piece.size());
  }
  return llvm::Error::success();
}

llvm::Error Rows::read(const DeviceBinding &memory, llvm::MutableArrayRef<uint8_t> out) const {
  return readRows(*this, memory, out);
}

llvm::Error Rows::read(Target &memory, llvm::MutableArrayRef<uint8_t> out) const {
  return readRows(*this, memory, out);
}

llvm::Error Rows::write(DeviceBinding &memory, llvm::ArrayRef<uint8_t> in) const {
  for (uint64_t row = 0; row < count && !in.empty(); ++row) {
    llvm::ArrayRef<uint8_t> piece = in.take_front(std::min<uint64_t>(rowBytes, in.size()));
    if (llvm::Error error = memory.writeMemory(rowAddress(row), piece))
      return error;
    in = in.drop_front(piece.size());
  }
  return llvm::Error::success();
}

uint64_t contentAddress(const Packet &packet, const PacketExtra &extra, uint64_t offset) {
  llvm::Expected<Rows> rows = Rows::of(packet, extra);
  if (!rows) {
    llvm::consumeError(rows.takeError()); // Refused when it was issued; here it only names a place.
    return packet.address + offset;
  }
  return offset < rows->length() ? rows->addressOf(offset) : packet.address + offset;
}

} // namespace tapeback
