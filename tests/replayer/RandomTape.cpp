#include "tests/replayer/RandomTape.h"
#include "tests/replayer/ScriptedTarget.h"

namespace tapeback::test {
namespace {

/// Numbers from bytes; zeroes when they run out.
class Bytes {
public:
  explicit Bytes(llvm::ArrayRef<uint8_t> bytes) : bytes(bytes) {}
  bool empty() const { return bytes.empty(); }
  uint8_t byte() {
    if (bytes.empty())
      return 0;
    uint8_t value = bytes.front();
    bytes = bytes.drop_front();
    return value;
  }
  uint64_t number() {
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i)
      value |= uint64_t(byte()) << (8 * i);
    return value;
  }
  /// Small, or one of the edges, or anything.
  uint64_t interesting() {
    static constexpr uint64_t edges[] = {0,
                                         1,
                                         4095,
                                         4096,
                                         0x200000,
                                         0x200000 + 8191,
                                         0x201ff8,
                                         0x100000,
                                         0x1000,
                                         0x10ff,
                                         0x7fffffffffffffff,
                                         0x8000000000000000,
                                         ~uint64_t(0),
                                         ~uint64_t(0) - 1,
                                         uint64_t(1) << 32,
                                         uint64_t(1) << 40};
    uint8_t choice = byte();
    if (choice < 160)
      return choice & 0x7f;
    if (choice < 240)
      return edges[choice & 15];
    return number();
  }

private:
  llvm::ArrayRef<uint8_t> bytes;
};

/// The toy, told to be a device with a queue: hostile entries, fences, rings and ports.
std::string describedWithQueue() {
  return std::string(toy::description) + R"(
layouts:
  - name: entry
    size: 16
    opcode: {offset: 0, width: 1}
    forms:
      - name: MOVE
        opcode: 1
        fields:
          - {name: buffer, offset: 2, width: 2}
          - {name: bytes, offset: 4, width: 2}
          - {name: host, offset: 8, width: 8, address: true}
        transfers:
          - {direction: to-device, host-address: host, row-bytes: bytes, device-address: buffer, window: buffer}
      - name: FENCE
        opcode: 2
        fields:
          - {name: value, offset: 4}
          - {name: host, offset: 8, width: 8, address: true}
        fence: {address: host, value: value}
queues:
  - {name: q, base: SRC, size: COUNT, head: NOISE, doorbell: SCRATCH, done: EXACT, rewind: [COUNT], layout: entry}
idle: [{register: STATUS, mask: 0x1, value: 0x0}]
resets: [{register: WIDE, mask: 0xff, value: 0x5a}]
)";
}

} // namespace

std::unique_ptr<MemoryTape> tapeFromBytes(llvm::ArrayRef<uint8_t> input) {
  constexpr size_t most = 512;
  Bytes bytes(input);
  auto tape = std::make_unique<MemoryTape>();
  uint8_t shape = bytes.byte();
  DeviceRecord record;
  record.alias = "toy";
  if (shape & 1)
    record.description = shape & 0x10 ? describedWithQueue() : toy::description;
  tape->theDevices.push_back(record);
  tape->theSpaces.push_back("bar0");
  tape->blockPackets = 1 + (shape >> 4);
  BlobId contents[4] = {{},
                        tape->store(std::vector<uint8_t>(16, 1)),
                        tape->store(std::vector<uint8_t>(300, 2)),
                        {0x1234, 0x5678}}; // The last is not on the tape.
  if (shape & 2) { // Memory and a transfer that are right, so that what follows finds something.
    Packet map;
    map.kind = PacketKind::MemoryMap;
    map.address = 0x200000;
    PacketExtra extra;
    extra.length = 8192;
    tape->add(map, extra);
  }
  while (!bytes.empty() && tape->packets.size() < most) {
    Packet packet;
    PacketExtra extra;
    uint8_t kind = bytes.byte();
    packet.kind = PacketKind(kind < 240 ? kind % packetKindCount : kind);
    uint8_t mode = bytes.byte();
    packet.completion = Completion(mode & 7);
    packet.origin = Origin((mode >> 3) & 3);
    packet.flags = bytes.byte();
    packet.width = uint8_t((mode & 0x20) ? 1u << (bytes.byte() & 3) : bytes.byte());
    packet.device = (mode & 0xc0) == 0xc0 ? bytes.byte() : 0;
    packet.space = bytes.byte() & 3;
    packet.address = bytes.interesting();
    packet.value = bytes.interesting();
    extra.mask = bytes.interesting();
    extra.expected = bytes.interesting();
    extra.deadline = bytes.interesting();
    extra.length = bytes.interesting();
    extra.link = bytes.interesting();
    extra.count = bytes.interesting();
    extra.payload = contents[bytes.byte() & 3];
    tape->add(packet, extra);
    uint8_t window = bytes.byte();
    if (window & 1)
      tape->endWindow(window & 2);
    if ((window & 0x1c) == 0x1c && tape->keyframes.size() < 4) {
      Keyframe keyframe;
      keyframe.packet = (window & 0x20) ? 0 : tape->packets.size();
      keyframe.restorable = window & 0x40;
      keyframe.registers.push_back({uint16_t(bytes.byte() & 3), bytes.interesting(), 4, bytes.interesting()});
      keyframe.mappings.push_back({0, bytes.interesting() & ~uint64_t(4095), bytes.interesting(), {}});
      keyframe.memory.push_back({0, bytes.interesting(), bytes.interesting(), contents[bytes.byte() & 3]});
      keyframe.internal.push_back(
          {uint16_t(bytes.byte() & 3), bytes.interesting(), bytes.interesting(), contents[bytes.byte() & 3]});
      tape->keyframes.push_back(keyframe);
    }
  }
  tape->endWindow(shape & 4);
  if (shape & 8) {
    tape->theOutcome.kind = Outcome::Kind::Failed;
    tape->theOutcome.packet = bytes.interesting();
    tape->theOutcome.signature = Signature();
  }
  return tape;
}

} // namespace tapeback::test
