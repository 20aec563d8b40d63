// From columns to packets. The input is untrusted: every size is checked before it is used, every row of a
// column that indexes something is checked against what it indexes.
#include "format/LargeMemory.h"
#include "format/Message.h"
#include "format/PacketCodec.h"

#include <algorithm>
#include <cstring>

namespace tapeback {

namespace {
constexpr size_t fieldLimit = 64; ///< Fields of this version have smaller numbers.
} // namespace

struct PacketDecoder::State {
  ColumnView columns[fieldLimit];
  bool present[fieldLimit];
  std::vector<uint64_t> keys, issue, complete, value, address, rows;
  std::vector<Packet> shapes; ///< One a key.
  std::vector<uint64_t> last, lastAddress, issueMask;
  uint32_t packetCount = 0, keyCount = 0, extraCount = 0, payloadCount = 0, windowCount = 0;

  /// All of these return nullptr, or what is wrong.
  const char *collect(schema::Packets::Reader root, const BlockHeader &header);
  const char *decodeShapes();
  const char *decodePacketRows();
  const char *decodePackets(std::vector<Packet> &packets);
  const char *decodeExtras(PacketBatch &batch);
  const char *decodePayloads(std::vector<PacketExtra> &extras);
  const char *decodeWindows(std::vector<WindowEnd> &windows);

  const ColumnView *find(PacketField field) const {
    const auto number = static_cast<size_t>(field);
    return present[number] ? &columns[number] : nullptr;
  }
  bool decodeAll(PacketField field, size_t count, std::vector<uint64_t> &out) {
    out.resize(count);
    const ColumnView *column = find(field);
    return column && decodeColumn(*column, out);
  }
  bool decodeResiduals(PacketField field, std::vector<uint64_t> &out) {
    out.resize(packetCount);
    const ColumnView *column = find(field);
    return column && decodePlanes(column->data, out);
  }
  Encoding encodingOf(PacketField field) const {
    const ColumnView *column = find(field);
    return column ? static_cast<Encoding>(column->encoding) : Encoding::Constant;
  }
  /// A column of a row set that goes into one member, whose type bounds its values.
  template <typename Record, typename T>
  bool decodeMember(PacketField field, std::vector<Record> &records, T Record::*member) {
    if (!decodeAll(field, records.size(), rows))
      return false;
    for (size_t i = 0; i < records.size(); ++i) {
      records[i].*member = static_cast<T>(rows[i]);
      if (static_cast<uint64_t>(records[i].*member) != rows[i])
        return false;
    }
    return true;
  }
};

PacketDecoder::PacketDecoder() : state(std::make_unique<State>()) {}
PacketDecoder::~PacketDecoder() = default;

const char *PacketDecoder::State::collect(schema::Packets::Reader root, const BlockHeader &header) {
  packetCount = root.getPacketCount();
  keyCount = root.getKeyCount();
  extraCount = root.getExtraCount();
  payloadCount = root.getPayloadCount();
  windowCount = root.getWindowCount();
  if (packetCount != header.itemCount || windowCount != header.windowCount)
    return "its counts are not those of the block's header";
  if (packetCount > maxPacketsPerBlock)
    return "it has more packets than a block may have";
  if (keyCount > packetCount || extraCount > packetCount || payloadCount > extraCount ||
      windowCount > packetCount + 1)
    return "its counts do not fit together";
  std::fill(std::begin(present), std::end(present), false);
  for (schema::Column::Reader column : root.getColumns()) {
    const uint16_t field = column.getField();
    if (field >= fieldLimit)
      continue; // A later version's.
    if (present[field])
      return "a column is there twice";
    present[field] = true;
    columns[field] = {field, column.getEncoding(), toRef(column.getData())};
  }
  return nullptr;
}

const char *PacketDecoder::State::decodeShapes() {
  shapes.assign(keyCount, Packet());
  if (!decodeMember(PacketField::KeyAddress, shapes, &Packet::address) ||
      !decodeMember(PacketField::KeyValue, shapes, &Packet::value) ||
      !decodeMember(PacketField::KeyDevice, shapes, &Packet::device) ||
      !decodeMember(PacketField::KeyThread, shapes, &Packet::thread) ||
      !decodeMember(PacketField::KeySpace, shapes, &Packet::space) ||
      !decodeMember(PacketField::KeyWidth, shapes, &Packet::width) ||
      !decodeMember(PacketField::KeyClock, shapes, &Packet::clock) ||
      !decodeMember(PacketField::KeyKind, shapes, &Packet::kind) ||
      !decodeMember(PacketField::KeyOrigin, shapes, &Packet::origin) ||
      !decodeMember(PacketField::KeyCompletion, shapes, &Packet::completion) ||
      !decodeMember(PacketField::KeyFlags, shapes, &Packet::flags))
    return "a column of keys cannot be decoded";
  last.resize(keyCount);
  lastAddress.resize(keyCount);
  issueMask.resize(keyCount);
  for (size_t row = 0; row < keyCount; ++row) {
    last[row] = shapes[row].value;
    lastAddress[row] = shapes[row].address;
    issueMask[row] = shapes[row].completion == Completion::Pending ? 0 : ~uint64_t(0);
  }
  return nullptr;
}

const char *PacketDecoder::State::decodePacketRows() {
  if (!decodeAll(PacketField::Key, packetCount, keys))
    return "the column of key numbers cannot be decoded";
  uint64_t highest = 0;
  for (uint64_t key : keys)
    highest = std::max(highest, key);
  if (packetCount != 0 && highest >= keyCount)
    return "a packet names a key that is not there";
  if (!decodeAll(PacketField::IssueTime, packetCount, issue))
    return "the column of issue times cannot be decoded";
  if (encodingOf(PacketField::CompleteTime) != Encoding::AfterIssue ||
      !decodeResiduals(PacketField::CompleteTime, complete))
    return "the column of completion times cannot be decoded";
  const Encoding how = encodingOf(PacketField::Value);
  if ((how != Encoding::KeyXor && how != Encoding::KeyDelta) || !decodeResiduals(PacketField::Value, value))
    return "the column of values cannot be decoded";
  if (find(PacketField::Address) && (encodingOf(PacketField::Address) != Encoding::KeyDelta ||
                                     !decodeResiduals(PacketField::Address, address)))
    return "the column of addresses cannot be decoded";
  return nullptr;
}

template <bool isDelta>
static void fillPackets(llvm::MutableArrayRef<Packet> packets, const uint64_t *keys, const uint64_t *issue,
                        const uint64_t *complete, const uint64_t *value, const Packet *shapes,
                        const uint64_t *issueMask, uint64_t *last) {
  for (size_t i = 0; i < packets.size(); ++i) {
    const uint64_t key = keys[i];
    Packet packet = shapes[key];
    packet.issueTime = issue[i];
    packet.completeTime = (issue[i] & issueMask[key]) + unzigzag(complete[i]);
    packet.value = last[key] = isDelta ? last[key] + unzigzag(value[i]) : last[key] ^ value[i];
    packets[i] = packet;
  }
}

const char *PacketDecoder::State::decodePackets(std::vector<Packet> &packets) {
  if (const char *fault = decodeShapes())
    return fault;
  if (const char *fault = decodePacketRows())
    return fault;
  if (packets.size() != packetCount) {
    reserveLarge(packets, packetCount);
    packets.resize(packetCount);
  }
  if (encodingOf(PacketField::Value) == Encoding::KeyDelta)
    fillPackets<true>(packets, keys.data(), issue.data(), complete.data(), value.data(), shapes.data(),
                      issueMask.data(), last.data());
  else
    fillPackets<false>(packets, keys.data(), issue.data(), complete.data(), value.data(), shapes.data(),
                       issueMask.data(), last.data());
  if (find(PacketField::Address))
    for (size_t i = 0; i < packets.size(); ++i)
      packets[i].address = lastAddress[keys[i]] += unzigzag(address[i]);
  return nullptr;
}

const char *PacketDecoder::State::decodePayloads(std::vector<PacketExtra> &extras) {
  std::vector<BlobId> ids(payloadCount);
  if (!decodeMember(PacketField::PayloadHi, ids, &BlobId::hi) ||
      !decodeMember(PacketField::PayloadLo, ids, &BlobId::lo))
    return "a column of payload ids cannot be decoded";
  if (!decodeAll(PacketField::Payload, extraCount, rows))
    return "the column of payloads cannot be decoded";
  for (size_t i = 0; i < extraCount; ++i) {
    if (rows[i] > payloadCount)
      return "a packet names a payload that is not there";
    if (rows[i] != 0)
      extras[i].payload = ids[rows[i] - 1];
  }
  return nullptr;
}

const char *PacketDecoder::State::decodeExtras(PacketBatch &batch) {
  batch.extras.assign(extraCount, PacketExtra());
  if (extraCount == 0)
    return nullptr;
  std::vector<PacketExtra> &extras = batch.extras;
  if (!decodeAll(PacketField::ExtraPacket, extraCount, rows))
    return "the column of packets with extras cannot be decoded";
  for (size_t i = 0; i < extraCount; ++i) {
    if (rows[i] >= packetCount || (i != 0 && rows[i] <= rows[i - 1]))
      return "an extra belongs to no packet";
    batch.packets[rows[i]].extra = static_cast<uint32_t>(i + 1);
  }
  if (!decodeMember(PacketField::Mask, extras, &PacketExtra::mask) ||
      !decodeMember(PacketField::Expected, extras, &PacketExtra::expected) ||
      !decodeMember(PacketField::Deadline, extras, &PacketExtra::deadline) ||
      !decodeMember(PacketField::Length, extras, &PacketExtra::length) ||
      !decodeMember(PacketField::Link, extras, &PacketExtra::link) ||
      !decodeMember(PacketField::Count, extras, &PacketExtra::count))
    return "a column of extras cannot be decoded";
  return decodePayloads(extras);
}

const char *PacketDecoder::State::decodeWindows(std::vector<WindowEnd> &windows) {
  windows.assign(windowCount, WindowEnd());
  if (windowCount == 0)
    return nullptr;
  if (!decodeMember(PacketField::WindowPackets, windows, &WindowEnd::packets) ||
      !decodeMember(PacketField::WindowQuiescent, windows, &WindowEnd::quiescent))
    return "the columns of window ends cannot be decoded";
  for (size_t i = 0; i < windowCount; ++i)
    if (windows[i].packets > packetCount || (i != 0 && windows[i].packets <= windows[i - 1].packets))
      return "a window ends where it cannot";
  return nullptr;
}

llvm::Error PacketDecoder::decode(llvm::ArrayRef<uint8_t> raw, const BlockHeader &header,
                                  const std::string &where, PacketBatch &batch,
                                  std::vector<WindowEnd> &windows) {
  return readMessage<schema::Packets>(raw, where, [&](schema::Packets::Reader root) -> llvm::Error {
    State &s = *state;
    const char *fault = s.collect(root, header);
    if (!fault)
      fault = s.decodePackets(batch.packets);
    if (!fault)
      fault = s.decodeExtras(batch);
    if (!fault)
      fault = s.decodeWindows(windows);
    if (fault) {
      batch.clear();
      windows.clear();
      return badMessage(fault, where);
    }
    batch.firstOrdinal = header.firstPacket;
    return llvm::Error::success();
  });
}

} // namespace tapeback
