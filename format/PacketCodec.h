// Packets to and from the raw bytes of a Packets block. SPEC.md, "Packets", has the columns. Internal to
// format/, and used by the recorder's flight history, which keeps packets in memory in the same form.
//
// A block's packets are first sorted into few distinct *keys* (everything of a packet but its times and
// value, and its address where addresses repeat); a packet is then a key number, time differences, and how
// its value differs from the last one with that key. Register traffic ends up at two bytes a packet.
#pragma once

#include "format/Columns.h"
#include "format/Layout.h"
#include "format/Packet.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include <memory>

namespace tapeback {

/// A window that ends in a block, after `packets` of the block's packets. 0: it ended before the block's
/// first packet, but after the block before had been written.
struct WindowEnd {
  uint32_t packets = 0;
  bool quiescent = false;
  bool operator==(const WindowEnd &) const = default;
};

/// Columns of a Packets message. On tape: add, never renumber.
enum class PacketField : uint16_t {
  // One row a packet. Address is there only if the keys do not hold it.
  IssueTime = 1,
  CompleteTime = 2,
  Key = 3,
  Value = 4,
  Address = 5,
  // One row a key, in order of first use. Address and value are those of its first packet.
  KeyAddress = 10,
  KeyValue = 11,
  KeyDevice = 12,
  KeyThread = 13,
  KeySpace = 14,
  KeyWidth = 15,
  KeyClock = 16,
  KeyKind = 17,
  KeyOrigin = 18,
  KeyCompletion = 19,
  KeyFlags = 20,
  // One row a packet with an extra. Payload: 0 for none, else 1 + the payload's row.
  ExtraPacket = 30,
  Mask = 31,
  Expected = 32,
  Deadline = 33,
  Length = 34,
  Link = 35,
  Count = 36,
  Payload = 37,
  // One row a distinct payload, in order of first use.
  PayloadHi = 40,
  PayloadLo = 41,
  // One row a window that ends here.
  WindowPackets = 50,
  WindowQuiescent = 51,
};

/// Encodes blocks one after another, keeping its buffers. Each block is independent of the others.
class PacketEncoder {
public:
  PacketEncoder();
  ~PacketEncoder();
  /// At most maxPacketsPerBlock packets. `use` gets the raw bytes, valid during the call.
  llvm::Error encode(const PacketBatch &batch, llvm::ArrayRef<WindowEnd> windows,
                     llvm::function_ref<llvm::Error(llvm::ArrayRef<uint8_t>)> use);

private:
  struct State;
  std::unique_ptr<State> state;
};

/// Decodes untrusted blocks, keeping its buffers: at most about 130 bytes for each packet of the largest
/// block.
class PacketDecoder {
public:
  PacketDecoder();
  ~PacketDecoder();
  /// Replaces `batch` and `windows`. `raw` is 8-byte aligned. Everything that does not fit together is a Tape
  /// failure.
  llvm::Error decode(llvm::ArrayRef<uint8_t> raw, const BlockHeader &header, const std::string &where,
                     PacketBatch &batch, std::vector<WindowEnd> &windows);

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace tapeback
