// Messages to records. Untrusted: Cap'n Proto bounds what can be followed, this file checks what it means.
#include "format/Message.h"
#include "format/RecordCodec.h"

#include <cstring>

namespace tapeback {

namespace {

std::string text(capnp::Text::Reader reader) {
  return {reader.begin(), reader.size()};
}

template <typename List>
std::map<std::string, std::string> facts(List list) {
  std::map<std::string, std::string> result;
  for (auto fact : list)
    result[text(fact.getKey())] = text(fact.getValue());
  return result;
}

template <typename List>
std::vector<KeyframeExtent> extents(List list) {
  std::vector<KeyframeExtent> result;
  result.reserve(list.size());
  for (auto extent : list)
    result.push_back({extent.getSpace(), extent.getAddress(), extent.getLength(),
                      BlobId{extent.getContentHi(), extent.getContentLo()}});
  return result;
}

DeviceRecord device(schema::Device::Reader from) {
  DeviceRecord device;
  device.alias = text(from.getAlias());
  device.targetUri = text(from.getTargetUri());
  device.identity = facts(from.getIdentity());
  device.description = text(from.getDescription());
  device.descriptionName = text(from.getDescriptionName());
  return device;
}

Signature signature(schema::Signature::Reader from) {
  Signature signature;
  signature.oracle = text(from.getOracle());
  signature.name = text(from.getName());
  signature.object = text(from.getObject());
  signature.field = text(from.getField());
  if (from.getHasOffset())
    signature.offset = from.getOffset();
  if (from.getHasXorClass())
    signature.xorClass = from.getXorClass();
  signature.marker = text(from.getMarker());
  signature.markerOccurrence = from.getMarkerOccurrence();
  signature.command = from.getCommand();
  return signature;
}

bool readDigest(capnp::Data::Reader data, Digest &digest) {
  if (data.size() != digest.size())
    return false;
  std::memcpy(digest.data(), data.begin(), digest.size());
  return true;
}

/// Runs a decoder of one record.
template <typename Root, typename Record>
llvm::Expected<Record> decode(llvm::ArrayRef<uint8_t> raw, const std::string &where,
                              llvm::function_ref<const char *(typename Root::Reader, Record &)> fill) {
  Record record;
  llvm::Error error = readMessage<Root>(raw, where, [&](typename Root::Reader root) -> llvm::Error {
    if (const char *fault = fill(root, record))
      return badMessage(fault, where);
    return llvm::Error::success();
  });
  if (error)
    return error;
  return record;
}

} // namespace

llvm::Expected<Manifest> decodeManifest(llvm::ArrayRef<uint8_t> raw, const std::string &where) {
  return decode<schema::Manifest, Manifest>(
      raw, where, [](schema::Manifest::Reader root, Manifest &manifest) -> const char * {
        manifest.facts = facts(root.getFacts());
        manifest.derivation = text(root.getDerivation());
        const auto parent = root.getParentRoot();
        if (parent.size() == 0)
          return nullptr;
        manifest.parentRoot.emplace();
        return readDigest(parent, *manifest.parentRoot) ? nullptr : "the parent's root is not 32 bytes";
      });
}

llvm::Expected<TableRows> decodeTables(llvm::ArrayRef<uint8_t> raw, const std::string &where) {
  return decode<schema::Tables, TableRows>(
      raw, where, [](schema::Tables::Reader root, TableRows &rows) -> const char * {
        rows.firstDevice = root.getFirstDevice();
        rows.firstSpace = root.getFirstSpace();
        rows.firstClock = root.getFirstClock();
        for (schema::Device::Reader entry : root.getDevices())
          rows.devices.push_back(device(entry));
        for (capnp::Text::Reader entry : root.getSpaces())
          rows.spaces.push_back(text(entry));
        for (schema::Clock::Reader entry : root.getClocks())
          rows.clocks.push_back({text(entry.getName()), entry.getTicksPerSecond()});
        // 64-bit sums: the counts themselves are bounded by the block.
        if (uint64_t(rows.firstDevice) + rows.devices.size() > 0x10000 ||
            uint64_t(rows.firstSpace) + rows.spaces.size() > 0x10000 ||
            uint64_t(rows.firstClock) + rows.clocks.size() > 0x100)
          return "it has more devices, spaces or clocks than ids";
        return nullptr;
      });
}

llvm::Expected<Keyframe> decodeKeyframe(llvm::ArrayRef<uint8_t> raw, const std::string &where) {
  return decode<schema::Keyframe, Keyframe>(
      raw, where, [](schema::Keyframe::Reader root, Keyframe &keyframe) -> const char * {
        keyframe.packet = root.getPacket();
        keyframe.window = root.getWindow();
        keyframe.device = root.getDevice();
        keyframe.restorable = root.getRestorable();
        keyframe.reason = text(root.getReason());
        for (schema::Register::Reader entry : root.getRegisters())
          keyframe.registers.push_back(
              {entry.getSpace(), entry.getAddress(), entry.getWidth(), entry.getValue()});
        keyframe.memory = extents(root.getMemory());
        keyframe.mappings = extents(root.getMappings());
        keyframe.internal = extents(root.getInternal());
        return nullptr;
      });
}

llvm::Error decodeBlobs(llvm::ArrayRef<uint8_t> raw, const std::string &where, std::vector<BlobPiece> &pieces,
                        llvm::ArrayRef<uint8_t> &bytes) {
  pieces.clear();
  bytes = {};
  return readMessage<schema::Blobs>(raw, where, [&](schema::Blobs::Reader root) -> llvm::Error {
    uint64_t sum = 0;
    for (schema::BlobPiece::Reader piece : root.getPieces()) {
      pieces.push_back({BlobId{piece.getIdHi(), piece.getIdLo()}, piece.getContentBytes(), piece.getOffset(),
                        piece.getLength()});
      const BlobPiece &last = pieces.back();
      if (last.contentBytes > maxBlobBytes || last.offset > last.contentBytes ||
          last.length > last.contentBytes - last.offset)
        return badMessage("a piece lies outside its content", where);
      sum += last.length;
    }
    bytes = toRef(root.getBytes());
    if (sum != bytes.size())
      return badMessage("its pieces are not as long as its bytes", where);
    // A content in several pieces has its blocks for itself: that is how its other pieces are found.
    for (const BlobPiece &piece : pieces)
      if (piece.length != piece.contentBytes && pieces.size() != 1)
        return badMessage("a piece of a content shares its block", where);
    return llvm::Error::success();
  });
}

llvm::Expected<TriggerRow> decodeTrigger(llvm::ArrayRef<uint8_t> raw, const std::string &where) {
  return decode<schema::Trigger, TriggerRow>(
      raw, where, [](schema::Trigger::Reader root, TriggerRow &trigger) -> const char * {
        trigger = {root.getPacket(), text(root.getText())};
        return nullptr;
      });
}

llvm::Expected<Outcome> decodeOutcome(llvm::ArrayRef<uint8_t> raw, const std::string &where) {
  return decode<schema::Outcome, Outcome>(raw, where,
                                          [](schema::Outcome::Reader root, Outcome &outcome) -> const char * {
                                            outcome.kind = static_cast<Outcome::Kind>(root.getKind());
                                            if (root.hasSignature())
                                              outcome.signature = signature(root.getSignature());
                                            if (root.getHasPacket())
                                              outcome.packet = root.getPacket();
                                            if (root.getHasProgramExit())
                                              outcome.programExit = root.getProgramExit();
                                            if (root.getHasProgramSignal())
                                              outcome.programSignal = root.getProgramSignal();
                                            outcome.text = text(root.getText());
                                            return nullptr;
                                          });
}

llvm::Expected<PartTable> decodePart(llvm::ArrayRef<uint8_t> raw, const std::string &where, size_t columns) {
  return decode<schema::IndexPart, PartTable>(
      raw, where, [columns](schema::IndexPart::Reader root, PartTable &table) -> const char * {
        table.kind = static_cast<PartKind>(root.getKind());
        table.first = root.getFirst();
        const uint32_t rows = root.getCount();
        if (rows == 0 || rows > maxPartRows)
          return "a part of the index has no rows, or more than a part may have";
        table.columns.assign(columns, {});
        for (schema::Column::Reader column : root.getColumns()) {
          const uint16_t field = column.getField();
          if (field >= columns)
            continue; // A later version's.
          if (!table.columns[field].empty())
            return "a column is there twice";
          table.columns[field].resize(rows);
          if (!decodeColumn({field, column.getEncoding(), toRef(column.getData())}, table.columns[field]))
            return "a column of the index cannot be decoded";
        }
        for (const std::vector<uint64_t> &column : table.columns)
          if (column.empty())
            return "a column of the index is missing";
        return nullptr;
      });
}

llvm::Expected<FooterRecord> decodeFooter(llvm::ArrayRef<uint8_t> raw, const std::string &where) {
  return decode<schema::Footer, FooterRecord>(
      raw, where, [](schema::Footer::Reader root, FooterRecord &footer) -> const char * {
        TapeSummary &summary = footer.summary;
        summary.packets = root.getPackets();
        summary.windows = root.getWindows();
        summary.blobs = root.getBlobs();
        summary.blobBytes = root.getBlobBytes();
        summary.keyframes = root.getKeyframes();
        summary.firstTime = root.getFirstTime();
        summary.lastTime = root.getLastTime();
        for (schema::LossSum::Reader loss : root.getLoss())
          summary.loss.packets[static_cast<LossCause>(loss.getCause())] = loss.getPackets();
        for (uint64_t offset : root.getTables())
          footer.tables.push_back(offset);
        for (uint64_t offset : root.getTriggers())
          footer.triggers.push_back(offset);
        footer.outcome = root.getOutcome();
        for (schema::PartPlace::Reader part : root.getParts())
          footer.parts.push_back({static_cast<PartKind>(part.getKind()), part.getOffset(), part.getFirst(),
                                  part.getCount(), part.getKeyHi(), part.getKeyLo()});
        return readDigest(root.getRoot(), summary.root) ? nullptr : "the root hash is not 32 bytes";
      });
}

} // namespace tapeback
