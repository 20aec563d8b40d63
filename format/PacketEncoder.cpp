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

/// A packet but its times and its value.
struct Key {
  uint64_t address = 0;
  uint64_t shape = 0; ///< space … flags.
  uint64_t who = 0;   ///< device and thread.
};

inline uint64_t shapeOf(const Packet &packet) {
  uint64_t shape;
  std::memcpy(&shape, reinterpret_cast<const uint8_t *>(&packet) + offsetof(Packet, space), 8);
  return shape;
}
inline uint32_t whoOf(const Packet &packet) {
  uint32_t who;
  std::memcpy(&who, reinterpret_cast<const uint8_t *>(&packet) + offsetof(Packet, device), 4);
  return who;
}

/// Numbers keys in order of first use. Open addressing; grows with the keys, so that common blocks stay in
/// the first-level cache.
class KeyTable {
public:
  void clear() {
    rows.assign(1, Key());
    slots.assign(slots.empty() ? 1024 : std::min<size_t>(slots.size(), 1024), 0);
  }
  size_t size() const { return rows.size() - 1; }
  const Key &operator[](size_t row) const { return rows[row + 1]; }

  /// Numbers keys of packets until there is a new one, which it numbers too; returns how many it did. The
  /// loop keeps to registers, and no packet waits for the one before.
  template <bool withAddress>
  size_t number(llvm::ArrayRef<Packet> packets, uint32_t *numbers) {
    const uint32_t *slot = slots.data();
    const uint64_t mask = slots.size() - 1;
    const Key *known = rows.data();
    for (size_t i = 0; i < packets.size(); ++i) {
      const uint64_t address = withAddress ? packets[i].address : 0;
      const uint64_t shape = shapeOf(packets[i]), who = whoOf(packets[i]);
      const uint32_t likely = slot[hash(address, shape, who) & mask];
      const Key &key = known[likely];
      if (LLVM_LIKELY(likely != 0 &&
                      ((key.address ^ address) | (key.shape ^ shape) | (key.who ^ who)) == 0)) {
        numbers[i] = likely - 1;
        continue;
      }
      const size_t before = rows.size();
      numbers[i] = search(address, shape, who);
      if (rows.size() != before)
        return i + 1;
    }
    return packets.size();
  }

private:
  LLVM_ATTRIBUTE_NOINLINE uint32_t search(uint64_t address, uint64_t shape, uint64_t who) {
    for (size_t slot = hash(address, shape, who);; ++slot) {
      slot &= slots.size() - 1;
      const uint32_t row = slots[slot];
      if (row == 0)
        return insert({address, shape, who}, slot);
      const Key &key = rows[row];
      if (key.address == address && key.shape == shape && key.who == who)
        return row - 1;
    }
  }
  static size_t hash(uint64_t address, uint64_t shape, uint64_t who) {
    uint64_t h = address * 0x9e3779b97f4a7c15u;
    h ^= (shape ^ (who << 20)) * 0xd6e8feb86659fd93u;
    return h ^ (h >> 32);
  }
  uint32_t insert(const Key &key, size_t slot) {
    const auto row = static_cast<uint32_t>(rows.size());
    rows.push_back(key);
    slots[slot] = row;
    if (rows.size() * 2 > slots.size())
      grow();
    return row - 1;
  }
  void grow() {
    slots.assign(slots.size() * 4, 0);
    for (size_t row = 1; row < rows.size(); ++row) {
      size_t slot = hash(rows[row].address, rows[row].shape, rows[row].who) & (slots.size() - 1);
      while (slots[slot] != 0)
        slot = (slot + 1) & (slots.size() - 1);
      slots[slot] = static_cast<uint32_t>(row);
    }
  }
  std::vector<Key> rows{1};    ///< The first is nobody's, so that a slot that is free has a row, too.
  std::vector<uint32_t> slots; ///< 0 is free, otherwise 1 + the key's number, which is its place in `rows`.
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

constexpr size_t pieceRows = 512;

unsigned bytesIn(uint64_t number) {
  return (71 - static_cast<unsigned>(std::countl_zero(number | 1))) / 8;
}

} // namespace

struct PacketEncoder::State {
  KeyTable table;
  PayloadTable payloads;
  WordBuffer buffer;
  std::vector<EncodedColumn> columns;
  // Rows of packets are made in pieces that stay in the first-level cache: keys, then residuals, then planes.
  std::vector<uint32_t> keys;
  PlaneSet issue, complete, key, value, address;
  std::vector<uint64_t> firstAddress, firstValue, lastAddress, lastValue; ///< One row a key.
  uint64_t piece[pieceRows], otherPiece[pieceRows];
  std::vector<std::vector<uint64_t>> spare; ///< For small columns; kept between blocks.
  size_t spareUsed = 0;
  bool withAddress = true, addressDecided = false, valueIsDelta = false;
  uint64_t previousIssue = 0;
  uint32_t previousKey = 0;
  uint64_t keyOr = 0, keyStepOr = 0;
  uint32_t extraCount = 0;

  std::vector<uint64_t> &scratch(size_t rows) {
    if (spareUsed == spare.size())
      spare.emplace_back();
    spare[spareUsed].resize(rows);
    return spare[spareUsed++];
  }

  void encodePackets(llvm::ArrayRef<Packet> packets);
  bool encodeRows(llvm::ArrayRef<Packet> packets);
  void start(size_t packets);
  bool numberKeys(llvm::ArrayRef<Packet> packets, size_t end);
  static bool addressesStride(llvm::ArrayRef<Packet> packets);
  bool deltaIsBetter(llvm::ArrayRef<Packet> packets);
  void addTimes(llvm::ArrayRef<Packet> packets);
  void addKeys(llvm::ArrayRef<uint32_t> numbers);
  template <bool isDelta>
  void addKeyed(llvm::ArrayRef<Packet> packets, const uint32_t *numbers, uint64_t Packet::*member,
                std::vector<uint64_t> &last, PlaneSet &planes);
  void finishKeys();
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
bool PacketEncoder::State::addressesStride(llvm::ArrayRef<Packet> packets) {
  packets = packets.take_front(4096);
  KeyTable shapes;
  shapes.clear();
  std::vector<uint32_t> numbers(packets.size());
  for (size_t done = 0; done < packets.size();)
    done += shapes.number<false>(packets.drop_front(done), numbers.data() + done);
  struct Walk {
    uint64_t last, step;
    bool begun;
  };
  std::vector<Walk> walks(shapes.size());
  size_t alike = 0;
  for (size_t i = 0; i < packets.size(); ++i) {
    Walk &walk = walks[numbers[i]];
    const uint64_t step = walk.begun ? packets[i].address - walk.last : 0;
    alike += step == walk.step || step == 0;
    walk = {packets[i].address, step, true};
  }
  return alike * 2 > packets.size();
}

void PacketEncoder::State::start(size_t packets) {
  table.clear();
  keys.clear();
  keys.reserve(packets);
  for (std::vector<uint64_t> *row : {&firstAddress, &firstValue, &lastAddress, &lastValue})
    row->clear();
  for (PlaneSet *planes : {&issue, &complete, &key, &value, &address})
    planes->clear(packets);
  addressDecided = !withAddress;
  keyOr = keyStepOr = 0;
}

// Numbers the keys of the packets up to `end`. False if addresses turned out not to belong in the keys.
bool PacketEncoder::State::numberKeys(llvm::ArrayRef<Packet> packets, size_t end) {
  constexpr size_t few = 256;
  size_t done = keys.size();
  keys.resize(end);
  while (done < end) {
    const llvm::ArrayRef<Packet> rest = packets.slice(done, end - done);
    done += withAddress ? table.number<true>(rest, keys.data() + done)
                        : table.number<false>(rest, keys.data() + done);
    const uint32_t row = keys[done - 1];
    if (row < firstValue.size())
      continue; // The end, without a new key.
    const Packet &packet = packets[done - 1];
    for (std::vector<uint64_t> *addresses : {&firstAddress, &lastAddress})
      addresses->push_back(packet.address);
    for (std::vector<uint64_t> *values : {&firstValue, &lastValue})
      values->push_back(packet.value);
    if (!addressDecided && row >= few) {
      if (addressesStride(packets))
        return false;
      addressDecided = true;
    }
    // Hardly an address twice: keys would be the packets over again.
    if (withAddress && row >= few && size_t(row) * 2 > done - 1 + 2 * few)
      return false;
  }
  return true;
}

void PacketEncoder::State::addTimes(llvm::ArrayRef<Packet> packets) {
  constexpr auto pending = static_cast<uint8_t>(Completion::Pending);
  uint64_t previous = previousIssue, orIssue = 0, orComplete = 0;
  for (size_t i = 0; i < packets.size(); ++i) {
    const Packet &packet = packets[i];
    const uint64_t step = zigzag(packet.issueTime - previous);
    const uint64_t base = static_cast<uint8_t>(packet.completion) == pending ? 0 : packet.issueTime;
    const uint64_t span = zigzag(packet.completeTime - base);
    previous = packet.issueTime;
    piece[i] = step;
    otherPiece[i] = span;
    orIssue |= step;
    orComplete |= span;
  }
  previousIssue = previous;
  issue.add({piece, packets.size()}, orIssue);
  complete.add({otherPiece, packets.size()}, orComplete);
}

void PacketEncoder::State::addKeys(llvm::ArrayRef<uint32_t> numbers) {
  uint64_t orHere = 0, orStep = 0, previous = previousKey;
  for (size_t i = 0; i < numbers.size(); ++i) {
    piece[i] = numbers[i];
    orHere |= numbers[i];
    orStep |= zigzag(numbers[i] - previous);
    previous = numbers[i];
  }
  previousKey = static_cast<uint32_t>(previous);
  keyOr |= orHere;
  keyStepOr |= orStep;
  key.add({piece, numbers.size()}, orHere);
}

// Looks at a sample: counters and ring indices have steps that repeat, status and data registers have bits
// that do.
bool PacketEncoder::State::deltaIsBetter(llvm::ArrayRef<Packet> packets) {
  struct Seen {
    uint64_t value, bits, step;
  };
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

template <bool isDelta>
void PacketEncoder::State::addKeyed(llvm::ArrayRef<Packet> packets, const uint32_t *numbers,
                                    uint64_t Packet::*member, std::vector<uint64_t> &last, PlaneSet &planes) {
  uint64_t orOfAll = 0, *before = last.data();
  for (size_t i = 0; i < packets.size(); ++i) {
    const uint64_t now = packets[i].*member;
    const uint64_t residual = isDelta ? zigzag(now - before[numbers[i]]) : now ^ before[numbers[i]];
    before[numbers[i]] = now;
    piece[i] = residual;
    orOfAll |= residual;
  }
  planes.add({piece, packets.size()}, orOfAll);
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

bool PacketEncoder::State::encodeRows(llvm::ArrayRef<Packet> packets) {
  constexpr size_t sample = 2048;
  start(packets.size());
  previousIssue = packets.empty() ? 0 : packets.front().issueTime;
  previousKey = 0;
  for (size_t begin = 0; begin < packets.size(); begin += pieceRows) {
    const size_t end = std::min(packets.size(), begin + pieceRows);
    if (keys.size() < end && !numberKeys(packets, begin == 0 ? std::min(packets.size(), sample) : end))
      return false;
    if (begin == 0)
      valueIsDelta = deltaIsBetter(packets.take_front(sample));
    const llvm::ArrayRef<Packet> rows = packets.slice(begin, end - begin);
    const uint32_t *numbers = keys.data() + begin;
    addTimes(rows);
    addKeys({numbers, rows.size()});
    if (valueIsDelta)
      addKeyed<true>(rows, numbers, &Packet::value, lastValue, value);
    else
      addKeyed<false>(rows, numbers, &Packet::value, lastValue, value);
    if (!withAddress)
      addKeyed<true>(rows, numbers, &Packet::address, lastAddress, address);
  }
  return true;
}

// Constant, Planes or DeltaPlanes, as encodeColumn would choose.
void PacketEncoder::State::finishKeys() {
  EncodedColumn column = {uint16_t(PacketField::Key), Encoding::Planes, 0, key.mask(), {}, &key};
  if (keyStepOr == 0) {
    column = {column.field, Encoding::Constant, 0, 0, {}, nullptr};
  } else if (std::popcount(planeMask(keyStepOr)) < std::popcount(planeMask(keyOr))) {
    std::vector<uint64_t> &numbers = scratch(keys.size());
    std::copy(keys.begin(), keys.end(), numbers.begin());
    column = encodeColumn(column.field, numbers, scratch(keys.size()));
  }
  columns.push_back(column);
}

void PacketEncoder::State::encodePackets(llvm::ArrayRef<Packet> packets) {
  withAddress = true;
  if (!encodeRows(packets)) {
    withAddress = false;
    encodeRows(packets);
  }
  const uint64_t firstIssue = packets.empty() ? 0 : packets.front().issueTime;
  auto add = [&](PacketField field, Encoding encoding, uint64_t base, const PlaneSet &planes) {
    columns.push_back({uint16_t(field), encoding, base, planes.mask(), {}, &planes});
  };
  add(PacketField::IssueTime, Encoding::DeltaPlanes, firstIssue, issue);
  add(PacketField::CompleteTime, Encoding::AfterIssue, 0, complete);
  finishKeys();
  add(PacketField::Value, valueIsDelta ? Encoding::KeyDelta : Encoding::KeyXor, 0, value);
  if (!withAddress)
    add(PacketField::Address, Encoding::KeyDelta, 0, address);
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
