// The records that are not packets, to and from the raw bytes of their blocks. Decoders take untrusted bytes
// (8-byte aligned) and say at `where` what is wrong with them. Internal to format/.
#pragma once

#include "format/Columns.h"
#include "format/Layout.h"
#include "format/WordBuffer.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace tapeback {

using UseRaw = llvm::function_ref<llvm::Error(llvm::ArrayRef<uint8_t>)>;

/// Rows appended to the tape's tables by one Device block.
struct TableRows {
  uint32_t firstDevice = 0, firstSpace = 0, firstClock = 0;
  std::vector<DeviceRecord> devices;
  std::vector<std::string> spaces;
  std::vector<TapeClock> clocks;
};

struct BlobPiece {
  BlobId id;
  uint64_t contentBytes = 0; ///< Of the whole content.
  uint64_t offset = 0;       ///< Of this piece in the content.
  uint32_t length = 0;       ///< Of this piece.
};

struct TriggerRow {
  uint64_t packet = 0;
  std::string text;
};

enum class PartKind : uint16_t { Windows = 1, PacketBlocks = 2, Blobs = 3, Keyframes = 4 };

/// A part of the index: a table of columns of equal length. Which columns, says Index.h.
struct PartTable {
  PartKind kind = PartKind::Windows;
  uint64_t first = 0;
  std::vector<std::vector<uint64_t>> columns;
  size_t rows() const { return columns.empty() ? 0 : columns.front().size(); }
};

struct PartPlace {
  PartKind kind = PartKind::Windows;
  uint64_t offset = 0, first = 0;
  uint32_t count = 0;
  uint64_t keyHi = 0, keyLo = 0;
  bool operator==(const PartPlace &) const = default;
};

struct FooterRecord {
  TapeSummary summary;
  std::vector<uint64_t> tables, triggers;
  uint64_t outcome = 0;
  std::vector<PartPlace> parts;
};

constexpr uint32_t maxPartRows = 1u << 16;

llvm::Error encodeManifest(WordBuffer &buffer, const Manifest &manifest, UseRaw use);
llvm::Error encodeTables(WordBuffer &buffer, const TableRows &tables, UseRaw use);
llvm::Error encodeKeyframe(WordBuffer &buffer, const Keyframe &keyframe, UseRaw use);
llvm::Error encodeTrigger(WordBuffer &buffer, const TriggerRow &trigger, UseRaw use);
llvm::Error encodeOutcome(WordBuffer &buffer, const Outcome &outcome, UseRaw use);
llvm::Error encodePart(WordBuffer &buffer, const PartTable &table, UseRaw use);
llvm::Error encodeFooter(WordBuffer &buffer, const FooterRecord &footer, UseRaw use);

llvm::Expected<Manifest> decodeManifest(llvm::ArrayRef<uint8_t> raw, const std::string &where);
llvm::Expected<TableRows> decodeTables(llvm::ArrayRef<uint8_t> raw, const std::string &where);
llvm::Expected<Keyframe> decodeKeyframe(llvm::ArrayRef<uint8_t> raw, const std::string &where);
/// `bytes` points into `raw`. Pieces are within the bounds of their contents, and together as long as
/// `bytes`.
llvm::Error decodeBlobs(llvm::ArrayRef<uint8_t> raw, const std::string &where, std::vector<BlobPiece> &pieces,
                        llvm::ArrayRef<uint8_t> &bytes);
llvm::Expected<TriggerRow> decodeTrigger(llvm::ArrayRef<uint8_t> raw, const std::string &where);
llvm::Expected<Outcome> decodeOutcome(llvm::ArrayRef<uint8_t> raw, const std::string &where);
/// At most maxPartRows rows, exactly `columns` columns.
llvm::Expected<PartTable> decodePart(llvm::ArrayRef<uint8_t> raw, const std::string &where, size_t columns);
llvm::Expected<FooterRecord> decodeFooter(llvm::ArrayRef<uint8_t> raw, const std::string &where);

} // namespace tapeback
