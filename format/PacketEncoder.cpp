// From packets to columns. The hot loops are written for the compiler: no branches that depend on the data
// but the predicted ones, arrays that stay in the second-level cache.
#include "format/Message.h"
#include "format/PacketCodec.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

namespace tapeback {

namespace {

// A packet's fields besides times, address and value, as they lie in memory after `extra`.
static_assert(offsetof(Packet, device) == 36 && offsetof(Packet, thread) == 38 &&
              offsetof(Packet, space) == 40 && offsetof(Packet, flags) == 47);

struct Key {
  uint64_t address = 0;
  uint64_t shape = 0; ///< space … flags.
  uint32_t who = 0;   ///< device and thread.
  bool operator==(const Key &) const = default;
};

inline Key keyOf(const Packet &packet, bool withAddress) {
  Key key;
  const auto *bytes = reinterpret_cast<const uint8_t *>(&packet);
  key.address = withAddress ? packet.address : 0;
  std::memcpy(&key.who, bytes + offsetof(Packet, device), 4);
  std::memcpy(&key.shape, bytes + offsetof(Packet, space), 8);
  return key;
}

/// Numbers keys in order of first use. Open addressing; grows with the keys, so that common blocks stay in
/// the first-level cache.
class KeyTable {
public:
  void clear() {
    rows.clear();
    slots.assign(slots.empty() ? 1024 : std::min<size_t>(slots.size(), 1024), 0);
  }
  size_t size() const { return rows.size(); }
  const Key &operator[](size_t row) const { return rows[row]; }

  uint32_t find(const Key &key) {
    for (size_t slot = hash(key) & (slots.size() - 1);; slot = (slot + 1) & (slots.size() - 1)) {
      const uint32_t row = slots[slot];
      if (row == 0)
        return insert(key, slot);
      if (rows[row - 1] == key)
        return row - 1;
    }
  }

private:
  static size_t hash(const Key &key) {
    uint64_t h = key.address * 0x9e3779b97f4a7c15u;
    h ^= (key.shape ^ (uint64_t(key.who) << 20)) * 0xd6e8feb86659fd93u;
    return h ^ (h >> 32);
  }
  uint32_t insert(const Key &key, size_t slot) {
    rows.push_back(key);
    slots[slot] = static_cast<uint32_t>(rows.size());
    if (rows.size() * 2 > slots.size())
      grow();
    return static_cast<uint32_t>(rows.size() - 1);
  }
  void grow() {
    slots.assign(slots.size() * 4, 0);
    for (size_t row = 0; row < rows.size(); ++row) {
      size_t slot = hash(rows[row]) & (slots.size() - 1);
      while (slots[slot] != 0)
        slot = (slot + 1) & (slots.size() - 1);
      slots[slot] = static_cast<uint32_t>(row + 1);
    }
  }
  std::vector<Key> rows;
  std::vector<uint32_t> slots; ///< Row + 1; 0 is free.
};

/// Numbers payload ids in order of first use.
class PayloadTable {
public:
  void clear(size_t expected) {
    rows.clear();
    slots.assign(std::bit_ceil(2 * expected + 2), 0);
  }
  uint64_t find(BlobId id) {
    for (size_t slot = id.lo & (slots.size() - 1);; slot = (slot + 1) & (slots.size() - 1)) {
      if (slots[slot] == 0) {
        rows.push_back(id);
        return slots[slot] = static_cast<uint32_t>(rows.size());
      }
      if (rows[slots[slot] - 1] == id)
        return slots[slot];
    }
  }
  llvm::ArrayRef<BlobId> ids() const { return rows; }

private:
  std::vector<BlobId> rows;
  std::vector<uint32_t> slots;
};

unsigned bytesIn(uint64_t number) {
  return (71 - static_cast<unsigned>(std::countl_zero(number | 1))) / 8;
}

} // namespace

struct PacketEncoder::State {
  KeyTable table;
  PayloadTable payloads;
  WordBuffer buffer;
  std::vector<EncodedColumn> columns;
  std::vector<uint64_t> keys, issue, complete, value, address; ///< One row a packet.
  std::vector<uint64_t> last, firstAddress, firstValue;        ///< One row a key.
  std::vector<uint32_t> successor;                             ///< Key that followed it last.
  std::vector<std::vector<uint64_t>> spare;                    ///< For small columns; kept between blocks.
  size_t spareUsed = 0;
  bool withAddress = true;
  uint32_t extraCount = 0;

  std::vector<uint64_t> &scratch(size_t rows) {
    if (spareUsed == spare.size())
      spare.emplace_back();
    spare[spareUsed].resize(rows);
    return spare[spareUsed++];
  }

  bool numberKeys(llvm::ArrayRef<Packet> packets);
  static bool addressesStride(llvm::ArrayRef<Packet> packets, KeyTable &table);
  void encodePackets(llvm::ArrayRef<Packet> packets);
  void encodeTimes(llvm::ArrayRef<Packet> packets);
  bool deltaIsBetter(llvm::ArrayRef<Packet> packets);
  void encodeKeyed(llvm::ArrayRef<Packet> packets, PacketField field, uint64_t Packet::*member, bool delta,
                   llvm::ArrayRef<uint64_t> first, std::vector<uint64_t> &residuals);
  void encodeKeys();
  void encodeExtras(const PacketBatch &batch);
  void encodeWindows(llvm::ArrayRef<WindowEnd> windows);

  template <typename Rows, typename Get>
  void addColumn(PacketField field, const Rows &rows, Get get) {
    spare.reserve(64); // References into it stay valid while a block's columns are made.
    std::vector<uint64_t> &values = scratch(rows.size());
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = get(rows[i]);
    columns.push_back(encodeColumn(static_cast<uint16_t>(field), values, scratch(rows.size())));
  }
};

PacketEncoder::PacketEncoder() : state(std::make_unique<State>()) {}
PacketEncoder::~PacketEncoder() = default;

// With many keys it pays to look whether addresses walk (a ring, a buffer being filled): then the address
// belongs in a column of its own, where the steps are all alike.
bool PacketEncoder::State::addressesStride(llvm::ArrayRef<Packet> packets, KeyTable &table) {
  packets = packets.take_front(4096);
  table.clear();
  std::vector<std::pair<uint64_t, uint64_t>> lastAndStep;
  size_t alike = 0;
  for (const Packet &packet : packets) {
    const uint32_t key = table.find(keyOf(packet, false));
    if (key == lastAndStep.size())
      lastAndStep.emplace_back(packet.address, 0);
    auto &[last, step] = lastAndStep[key];
    const uint64_t now = packet.address - last;
    alike += now == step || now == 0;
    last = packet.address;
    step = now;
  }
  return alike * 2 > packets.size();
}

// False if addresses turned out not to belong in the keys.
bool PacketEncoder::State::numberKeys(llvm::ArrayRef<Packet> packets) {
  constexpr size_t few = 256;
  table.clear();
  firstAddress.clear();
  firstValue.clear();
  successor.clear();
  keys.resize(packets.size());
  bool decided = !withAddress;
  uint32_t previous = 0;
  for (size_t i = 0; i < packets.size(); ++i) {
    const Packet &packet = packets[i];
    const Key key = keyOf(packet, withAddress);
    uint32_t row = i == 0 ? 0 : successor[previous];
    if (i == 0 || !(table[row] == key)) {
      row = table.find(key);
      if (row == successor.size()) {
        firstAddress.push_back(packet.address);
        firstValue.push_back(packet.value);
        successor.push_back(row);
        if (!decided && row >= few) {
          KeyTable sample;
          if (addressesStride(packets, sample))
            return false;
          decided = true;
        }
        // Hardly an address twice: keys would be the packets over again.
        if (withAddress && row >= few && size_t(row) * 2 > i + 2 * few)
          return false;
      }
      successor[previous] = row;
    }
    keys[i] = row;
    previous = row;
  }
  return true;
}

void PacketEncoder::State::encodeTimes(llvm::ArrayRef<Packet> packets) {
  const size_t count = packets.size();
  constexpr auto pending = static_cast<uint8_t>(Completion::Pending);
  issue.resize(count);
  complete.resize(count);
  const uint64_t first = packets.empty() ? 0 : packets.front().issueTime;
  uint64_t previous = first, orIssue = 0, orComplete = 0;
  for (size_t i = 0; i < count; ++i) {
    const Packet &packet = packets[i];
    const uint64_t step = zigzag(packet.issueTime - previous);
    const uint64_t base = static_cast<uint8_t>(packet.completion) == pending ? 0 : packet.issueTime;
    const uint64_t span = zigzag(packet.completeTime - base);
    previous = packet.issueTime;
    issue[i] = step;
    complete[i] = span;
    orIssue |= step;
    orComplete |= span;
  }
  columns.push_back(
      {uint16_t(PacketField::IssueTime), Encoding::DeltaPlanes, first, planeMask(orIssue), issue});
  columns.push_back(
      {uint16_t(PacketField::CompleteTime), Encoding::AfterIssue, 0, planeMask(orComplete), complete});
}

// Looks at a sample: counters and ring indices have steps that repeat, status and data registers have bits
// that do.
bool PacketEncoder::State::deltaIsBetter(llvm::ArrayRef<Packet> packets) {
  struct Seen {
    uint64_t value, bits, step;
  };
  packets = packets.take_front(2048);
  std::vector<Seen> seen(table.size());
  for (size_t row = 0; row < seen.size(); ++row)
    seen[row] = {firstValue[row], 0, 0};
  size_t xorCost = 0, deltaCost = 0;
  for (size_t i = 0; i < packets.size(); ++i) {
    Seen &last = seen[keys[i]];
    const uint64_t bits = packets[i].value ^ last.value, step = zigzag(packets[i].value - last.value);
    xorCost += bits == last.bits ? 0 : bytesIn(bits);
    deltaCost += step == last.step ? 0 : bytesIn(step);
    last = {packets[i].value, bits, step};
  }
  return deltaCost < xorCost;
}

void PacketEncoder::State::encodeKeyed(llvm::ArrayRef<Packet> packets, PacketField field,
                                       uint64_t Packet::*member, bool delta, llvm::ArrayRef<uint64_t> first,
                                       std::vector<uint64_t> &residuals) {
  last.assign(first.begin(), first.end());
  residuals.resize(packets.size());
  uint64_t orOfAll = 0;
  for (size_t i = 0; i < packets.size(); ++i) {
    const uint64_t now = packets[i].*member;
    uint64_t &before = last[keys[i]];
    const uint64_t residual = delta ? zigzag(now - before) : now ^ before;
    before = now;
    residuals[i] = residual;
    orOfAll |= residual;
  }
  columns.push_back(
      {uint16_t(field), delta ? Encoding::KeyDelta : Encoding::KeyXor, 0, planeMask(orOfAll), residuals});
}

void PacketEncoder::State::encodeKeys() {
  struct Rows {
    const KeyTable &table;
    size_t size() const { return table.size(); }
    const Key &operator[](size_t row) const { return table[row]; }
  } rows{table};
  auto shapeByte = [](unsigned byte) {
    return [byte](const Key &key) { return key.shape >> (8 * byte) & 0xff; };
  };
  auto same = [](uint64_t number) { return number; };
  addColumn(PacketField::KeyAddress, firstAddress, same);
  addColumn(PacketField::KeyValue, firstValue, same);
  addColumn(PacketField::KeyDevice, rows, [](const Key &key) { return key.who & 0xffff; });
  addColumn(PacketField::KeyThread, rows, [](const Key &key) { return key.who >> 16; });
  addColumn(PacketField::KeySpace, rows, [](const Key &key) { return key.shape & 0xffff; });
  addColumn(PacketField::KeyWidth, rows, shapeByte(2));
  addColumn(PacketField::KeyClock, rows, shapeByte(3));
  addColumn(PacketField::KeyKind, rows, shapeByte(4));
  addColumn(PacketField::KeyOrigin, rows, shapeByte(5));
  addColumn(PacketField::KeyCompletion, rows, shapeByte(6));
  addColumn(PacketField::KeyFlags, rows, shapeByte(7));
}

void PacketEncoder::State::encodePackets(llvm::ArrayRef<Packet> packets) {
  withAddress = true;
  if (!numberKeys(packets)) {
    withAddress = false;
    numberKeys(packets);
  }
  encodeTimes(packets);
  columns.push_back(encodeColumn(uint16_t(PacketField::Key), keys, scratch(keys.size())));
  encodeKeyed(packets, PacketField::Value, &Packet::value, deltaIsBetter(packets), firstValue, value);
  if (!withAddress)
    encodeKeyed(packets, PacketField::Address, &Packet::address, true, firstAddress, address);
  encodeKeys();
}

void PacketEncoder::State::encodeExtras(const PacketBatch &batch) {
  extraCount = 0;
  if (batch.extras.empty())
    return;
  // In the order of the packets, whatever the order in memory; extras that no packet refers to are left out.
  std::vector<uint64_t> &positions = scratch(0);
  std::vector<const PacketExtra *> extras;
  for (size_t i = 0; i < batch.packets.size(); ++i) {
    if (batch.packets[i].extra == 0)
      continue;
    positions.push_back(i);
    extras.push_back(&batch.extra(batch.packets[i]));
  }
  extraCount = static_cast<uint32_t>(extras.size());
  if (extras.empty())
    return;
  payloads.clear(extras.size());
  auto number = [](uint64_t row) { return row; };
  addColumn(PacketField::ExtraPacket, positions, number);
  addColumn(PacketField::Mask, extras, [](const PacketExtra *extra) { return extra->mask; });
  addColumn(PacketField::Expected, extras, [](const PacketExtra *extra) { return extra->expected; });
  addColumn(PacketField::Deadline, extras, [](const PacketExtra *extra) { return extra->deadline; });
  addColumn(PacketField::Length, extras, [](const PacketExtra *extra) { return extra->length; });
  addColumn(PacketField::Link, extras, [](const PacketExtra *extra) { return extra->link; });
  addColumn(PacketField::Count, extras, [](const PacketExtra *extra) { return extra->count; });
  addColumn(PacketField::Payload, extras,
            [&](const PacketExtra *extra) { return extra->payload ? payloads.find(extra->payload) : 0; });
  addColumn(PacketField::PayloadHi, payloads.ids(), [](BlobId id) { return id.hi; });
  addColumn(PacketField::PayloadLo, payloads.ids(), [](BlobId id) { return id.lo; });
}

void PacketEncoder::State::encodeWindows(llvm::ArrayRef<WindowEnd> windows) {
  if (windows.empty())
    return;
  addColumn(PacketField::WindowPackets, windows, [](WindowEnd window) { return window.packets; });
  addColumn(PacketField::WindowQuiescent, windows, [](WindowEnd window) { return window.quiescent; });
}

llvm::Error PacketEncoder::encode(const PacketBatch &batch, llvm::ArrayRef<WindowEnd> windows,
                                  llvm::function_ref<llvm::Error(llvm::ArrayRef<uint8_t>)> use) {
  State &s = *state;
  s.columns.clear();
  s.spareUsed = 0;
  s.spare.reserve(64);
  s.payloads.clear(0);
  s.encodePackets(batch.packets);
  s.encodeExtras(batch);
  s.encodeWindows(windows);

  size_t bytes = 64 + 32 * s.columns.size();
  for (const EncodedColumn &column : s.columns)
    bytes += (column.bytes() + 7) & ~size_t(7);
  return buildMessage(
      s.buffer, bytes,
      [&](capnp::MessageBuilder &message) {
        auto root = message.initRoot<schema::Packets>();
        root.setPacketCount(static_cast<uint32_t>(batch.packets.size()));
        root.setKeyCount(static_cast<uint32_t>(s.table.size()));
        root.setExtraCount(s.extraCount);
        root.setPayloadCount(static_cast<uint32_t>(s.payloads.ids().size()));
        root.setWindowCount(static_cast<uint32_t>(windows.size()));
        auto columns = root.initColumns(static_cast<unsigned>(s.columns.size()));
        for (unsigned i = 0; i < columns.size(); ++i) {
          columns[i].setField(s.columns[i].field);
          columns[i].setEncoding(static_cast<uint16_t>(s.columns[i].encoding));
          s.columns[i].write(columns[i].initData(static_cast<unsigned>(s.columns[i].bytes())).begin());
        }
      },
      use);
}

} // namespace tapeback
