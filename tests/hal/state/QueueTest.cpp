// Queues in the shadow state: what is outstanding, how the host learns that it is not, and what is known of
// memory and windows meanwhile.
#include "hal/state/ShadowState.h"
#include "tests/hal/state/PacketScript.h"
#include <doctest/doctest.h>

using namespace tapeback;

namespace {

const char *engineYaml = R"(
tapeback-description: 1
name: engine
spaces: [bar0]
registers:
  - {name: CONTROL, offset: 0, reset: 0}
  - {name: STATUS, offset: 4, access: ro, class: status}
  - {name: PORT, offset: 8, reset: 0}
  - {name: DATA, offset: 12, class: fifo}
  - {name: LO0, offset: 0x20, reset: 0}
  - {name: HI0, offset: 0x24, reset: 0}
  - {name: SIZE0, offset: 0x28, reset: 0}
  - {name: HEAD0, offset: 0x2c, access: ro, class: progress}
  - {name: BELL0, offset: 0x30, access: wo}
  - {name: DONE0, offset: 0x34, access: ro, class: progress}
  - {name: LO1, offset: 0x40, reset: 0}
  - {name: SIZE1, offset: 0x48, reset: 0}
  - {name: BELL1, offset: 0x50, access: wo}
windows:
  - {name: pad, base: 0x100, size: 256, reset: 0, port: {address: PORT, data: DATA, usable: [{register: CONTROL, mask: 1, value: 0}, {register: STATUS, mask: 2, value: 2}]}}
layouts:
  - name: command
    size: 32
    opcode: {offset: 0, width: 1}
    forms:
      - {name: MATH, opcode: 0}
      - name: LOAD
        opcode: 1
        fields: [{name: host, offset: 8, width: 8, address: true}, {name: at, offset: 16}, {name: bytes, offset: 20}, {name: rows, offset: 24}, {name: stride, offset: 28}]
        transfers: [{direction: to-device, host-address: host, row-bytes: bytes, rows: rows, host-stride: stride, device-address: at, window: pad}]
      - name: STORE
        opcode: 2
        fields: [{name: host, offset: 8, width: 8, address: true}, {name: at, offset: 16}, {name: bytes, offset: 20}]
        transfers: [{direction: from-device, host-address: host, row-bytes: bytes, device-address: at, window: pad}]
      - name: FENCE
        opcode: 3
        fields: [{name: host, offset: 8, width: 8, address: true}, {name: value, offset: 16, width: 8}]
        fence: {address: host, value: value}
queues:
  - {name: q0, base: LO0, base-high: HI0, size: SIZE0, head: HEAD0, doorbell: BELL0, done: DONE0, rewind: [SIZE0], layout: command}
  - {name: q1, base: LO1, size: SIZE1, doorbell: BELL1, layout: command}
idle: [{register: STATUS, mask: 4, value: 4}]
resets: [{register: CONTROL, mask: 2, value: 2}]
restore: [{window: pad}]
)";

const Description &engine() {
  static const Description description = [] {
    llvm::Expected<Description> parsed = parseDescription(engineYaml, "engine.yaml");
    if (parsed)
      return std::move(*parsed);
    FAIL(llvm::toString(parsed.takeError()));
    return Description();
  }();
  return description;
}

constexpr uint64_t ringBase[] = {0x10000, 0x20000}, fenceWord = 0x5000;

/// What a driver and the recorder put on the tape.
struct Engine : PacketScript {
  explicit Engine(ShadowLimits limits = {}) : PacketScript(&engine(), limits) {
    reset();
    map(0x1000, 0x30000);
    memoryWrite(fenceWord, std::vector<uint8_t>(16, 0));
    write(0x20, ringBase[0]);
    write(0x28, 8);
    write(0x40, ringBase[1]);
    write(0x48, 8);
  }
  uint64_t submit(unsigned queue, std::vector<uint8_t> entry) {
    entry.resize(32);
    Packet packet;
    packet.kind = PacketKind::Submit;
    packet.address = ringBase[queue] + (submitted[queue] % 8) * 32;
    packet.value = queue;
    PacketExtra extra;
    extra.length = 32;
    extra.count = submitted[queue]++;
    extra.payload = store(entry);
    return apply(packet, extra);
  }
  static std::vector<uint8_t> entry(uint8_t opcode, uint64_t host = 0, uint64_t second = 0,
                                    uint32_t third = 0) {
    std::vector<uint8_t> bytes(32);
    bytes[0] = opcode;
    for (unsigned i = 0; i < 8; ++i) {
      bytes[8 + i] = uint8_t(host >> (8 * i));
      bytes[16 + i] = uint8_t(second >> (8 * i));
    }
    for (unsigned i = 0; i < 4 && third; ++i)
      bytes[20 + i] = uint8_t(third >> (8 * i));
    return bytes;
  }
  uint64_t math(unsigned queue) { return submit(queue, entry(0)); }
  uint64_t fence(unsigned queue, uint64_t value, uint64_t address = fenceWord) {
    return submit(queue, entry(3, address, value));
  }
  uint64_t load(unsigned queue, uint64_t host, uint32_t at, const std::vector<uint8_t> &bytes) {
    submit(queue, entry(1, host, at, uint32_t(bytes.size())));
    memoryWrite(host, bytes);
    return content(PacketKind::DmaDescriptor, host, bytes, TransferToDevice, at);
  }
  uint64_t store(unsigned queue, uint64_t host, uint32_t at, uint32_t bytes) {
    submit(queue, entry(2, host, at, bytes));
    return range(PacketKind::DmaDescriptor, host, bytes, TransferFromDevice, at);
  }
  using PacketScript::store;
  void done(uint64_t descriptor, uint64_t host, uint64_t length, const std::vector<uint8_t> &got = {}) {
    if (got.empty())
      range(PacketKind::DmaCompletion, host, length, TransferToDevice, 0, descriptor);
    else
      content(PacketKind::DmaCompletion, host, got, TransferFromDevice, 0, descriptor);
  }
  bool sawFence(uint64_t value, uint64_t address = fenceWord) {
    Packet packet;
    packet.kind = PacketKind::MemoryWait;
    packet.address = address;
    packet.width = 8;
    packet.value = value;
    apply(packet);
    return state.quiescent();
  }
  bool saw(uint64_t reg, uint64_t value) {
    read(reg, value);
    return state.quiescent();
  }
  uint64_t submitted[2] = {};
};

} // namespace

TEST_CASE("an entry is outstanding until a fence behind it is seen") {
  Engine e;
  CHECK(e.state.quiescent());
  e.math(0);
  CHECK(!e.state.quiescent());
  CHECK(e.state.running() == std::vector<std::string>{"1 entry of q0"});
  e.fence(0, 7);
  e.write(0x30, 2);
  CHECK(!e.state.atSynchronisation());
  CHECK(!e.sawFence(6));
  CHECK(e.sawFence(7));
  CHECK(e.state.atSynchronisation());
  CHECK(e.state.commands() == 2);
  // Behind the fence nothing is known.
  e.fence(0, 8);
  e.math(0);
  CHECK(!e.sawFence(8));
  CHECK(e.state.running() == std::vector<std::string>{"1 entry of q0"});
}

TEST_CASE("progress registers, idle, and resets") {
  Engine e;
  e.math(0);
  e.math(0);
  e.math(0);
  CHECK(!e.saw(0x2c, 2));
  CHECK(!e.state.atSynchronisation()); // Not drained.
  CHECK(e.saw(0x2c, 3));
  CHECK(e.state.atSynchronisation());
  for (int i = 0; i < 7; ++i) // Round the ring.
    e.math(0);
  CHECK(!e.saw(0x2c, 1));
  CHECK(e.state.running() == std::vector<std::string>{"1 entry of q0"});
  CHECK(e.saw(0x34, 10));
  e.math(0);
  CHECK(!e.saw(0x34, 300)); // Nothing of ours.
  e.math(1);
  CHECK(!e.saw(0x4, 3));
  CHECK(e.saw(0x4, 4));
  CHECK(e.state.atSynchronisation());
  e.math(1);
  e.write(0, 2); // Soft reset.
  CHECK(e.state.quiescent());
  CHECK(e.state.atSynchronisation());
  e.submitted[1] = 0;
  e.math(1);
  e.reset();
  CHECK(e.state.quiescent());
}

TEST_CASE("seeing a fence proves nothing while its value may have been there before") {
  Engine e;
  e.math(0);
  e.fence(0, 0); // What lies there.
  CHECK(!e.sawFence(0));
  e.math(0);
  e.fence(0, 5);
  CHECK(e.sawFence(5));
  e.fence(0, 5);
  CHECK(!e.sawFence(5));
  // The host clears it, and the recorder sees that when it captures the word.
  e.memoryWrite(fenceWord, std::vector<uint8_t>(8, 0));
  CHECK(e.memory(fenceWord, 2) == "?"
                                  "?"); // Still the device's to write.
  CHECK(e.sawFence(5));
  // Two of the same: the first look is the first one's.
  e.fence(0, 6);
  e.math(0);
  e.fence(0, 6);
  CHECK(!e.sawFence(6));
  CHECK(e.state.running() == std::vector<std::string>{"2 entries of q0"});
  // And of two queues nobody can tell.
  Engine two;
  two.fence(0, 9);
  two.fence(1, 9);
  two.sawFence(1);
  CHECK(!two.sawFence(9));
}

TEST_CASE("a fence word belongs to the device, and then has its value") {
  Engine e;
  uint64_t fence = e.fence(0, 0x0102030405060708);
  CHECK(e.memory(fenceWord, 8) == "????????");
  CHECK(e.state.lastWriterOfMemory(fenceWord) == fence);
  CHECK(e.saw(0x2c, 1));
  uint8_t word[1];
  bool known[1];
  CHECK(e.state.memoryContent(fenceWord, word, known) == 1);
  CHECK(word[0] == 8);
  CHECK(e.state.lastWriterOfMemory(fenceWord + 7) == fence);
}

TEST_CASE("transfers of entries reach memory and window, row by row") {
  Engine e;
  e.submit(0, Engine::entry(1, 0x3000, 0x110, 4));
  Packet packet;
  packet.kind = PacketKind::MemoryWrite;
  packet.address = 0x3000;
  PacketExtra extra;
  extra.length = 8;
  extra.count = 2;
  extra.expected = 16;
  extra.payload = e.PacketScript::store({'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'});
  uint64_t stored = e.apply(packet, extra);
  packet.kind = PacketKind::DmaDescriptor;
  packet.flags = TransferToDevice;
  packet.value = 0x110;
  extra.mask = 8; // The device's stride.
  uint64_t descriptor = e.apply(packet, extra);
  CHECK(e.memory(0x3000, 20) == "abcd????????????efgh");
  CHECK(e.state.lastWriterOfMemory(0x3010) == stored);
  CHECK(e.state.lastWriterOfMemory(0x3008) == std::nullopt);
  CHECK(e.state.lastWriterOfWindow("pad", 0x113) == descriptor);
  CHECK(e.state.lastWriterOfWindow("pad", 0x118) == descriptor);
  CHECK(e.state.lastWriterOfWindow("pad", 0x114) != descriptor);
  CHECK(e.saw(0x2c, 1) == false); // The transfer's completion is to follow.
  e.done(descriptor, 0x3000, 8);
  CHECK(e.state.quiescent());
  CHECK(e.state.atSynchronisation());
  uint8_t bytes[12];
  bool known[12];
  e.state.windowContent("pad", 0x110, bytes, known);
  CHECK(std::string(bytes, bytes + 4) == "abcd");
  CHECK(std::string(bytes + 8, bytes + 12) == "efgh");
  CHECK(bytes[5] == 0); // As the reset left it.
}

TEST_CASE("a command that computes makes windows unknown; what is loaded before it stays unknown") {
  Engine e;
  uint64_t first = e.load(0, 0x3000, 0x100, {1, 2});
  e.math(0);
  e.fence(0, 1);
  e.sawFence(1);
  e.done(first, 0x3000, 2);
  CHECK(e.state.quiescent());
  uint8_t bytes[2];
  bool known[2];
  CHECK(e.state.windowContent("pad", 0x100, bytes, known) == 0);
  CHECK(e.state.lastWriterOfWindow("pad", 0x100) == std::nullopt);
  uint64_t second = e.load(0, 0x3000, 0x100, {3, 4});
  e.saw(0x4, 4);
  e.done(second, 0x3000, 2);
  CHECK(e.state.windowContent("pad", 0x100, bytes, known) == 2);
  CHECK(bytes[1] == 4);
  // Another queue may still compute.
  e.math(1);
  uint64_t third = e.load(0, 0x3000, 0x100, {5, 6});
  e.saw(0x2c, 4 % 8);
  e.done(third, 0x3000, 2);
  CHECK(e.state.windowContent("pad", 0x100, bytes, known) == 0);
}

TEST_CASE("two queues at the same bytes: nobody can tell which came last") {
  Engine e;
  uint64_t a = e.load(0, 0x3000, 0x100, {1, 1, 1, 1});
  uint64_t b = e.load(1, 0x3100, 0x102, {2, 2, 2, 2});
  e.saw(0x4, 4);
  e.done(a, 0x3000, 4);
  e.done(b, 0x3100, 4);
  uint8_t bytes[6];
  bool known[6];
  CHECK(e.state.windowContent("pad", 0x100, bytes, known) == 0);
}

TEST_CASE("a completion seen once more corrects what is known of memory") {
  Engine e;
  uint64_t descriptor = e.store(0, 0x3000, 0x100, 4);
  CHECK(e.memory(0x3000, 4) == "????");
  e.saw(0x4, 4);
  e.done(descriptor, 0x3000, 4, {'a', 'b', 'c', 'd'});
  CHECK(e.memory(0x3000, 4) == "abcd");
  CHECK(e.state.lastWriterOfMemory(0x3001) == descriptor);
  e.content(PacketKind::DmaCompletion, 0x3000, {'a', 'X', 'c', 'd'}, TransferFromDevice, 1, descriptor);
  CHECK(!e.state.atSynchronisation());
  CHECK(e.memory(0x3000, 4) == "aXcd");
  CHECK(e.state.lastWriterOfMemory(0x3001) == std::nullopt); // A stray writer.
  CHECK(e.state.lastWriterOfMemory(0x3002) == descriptor);
}

TEST_CASE("a window's port shows and changes it while it may be used") {
  Engine e;
  e.write(0x8, 0x110);
  uint64_t stored = e.write(0xc, 0x44434241);
  uint8_t bytes[4];
  bool known[4];
  CHECK(e.state.windowContent("pad", 0x110, bytes, known) == 4);
  CHECK(std::string(bytes, bytes + 4) == "ABCD");
  CHECK(e.state.lastWriterOfWindow("pad", 0x110) == stored);
  CHECK(e.state.registerValue(1, 0x8) == 0x114);
  e.write(0x8, 0x1fc);
  e.read(0xc, 0x31323334);
  CHECK(e.state.windowContent("pad", 0x1fc, bytes, known) == 4);
  CHECK(bytes[0] == '4');
  CHECK(e.state.registerValue(1, 0x8) == 0x100); // Round the end.
  e.write(0, 1);                                 // Enabled: the port may do nothing now.
  e.write(0x8, 0x110);
  e.write(0xc, 0);
  CHECK(e.state.windowContent("pad", 0x110, bytes, known) == 0);
  CHECK(e.state.registerValue(1, 0x8) == std::nullopt);
  e.write(0x8, 0x110);
  e.read(0x4, 2); // Halted.
  e.write(0xc, 0x31313131);
  CHECK(e.state.windowContent("pad", 0x110, bytes, known) == 4);
  e.write(0, 9); // It goes on: what was read of STATUS says nothing any more.
  e.write(0x8, 0x110);
  e.write(0xc, 0);
  CHECK(e.state.windowContent("pad", 0x110, bytes, known) == 0);
}

TEST_CASE("keyframes: restorable until a queue was used, and again after a reset") {
  Engine e;
  llvm::Expected<Keyframe> fresh = e.keyframe();
  REQUIRE(bool(fresh));
  CHECK(fresh->restorable);
  e.math(0);
  llvm::Expected<Keyframe> busy = e.keyframe();
  REQUIRE(bool(busy));
  CHECK(!busy->restorable);
  CHECK(busy->reason == "the device was not quiescent: 1 entry of q0");
  e.saw(0x4, 4);
  llvm::Expected<Keyframe> used = e.keyframe();
  REQUIRE(bool(used));
  CHECK(!used->restorable);
  CHECK(used->reason.find("queues have been used") == 0);
  e.write(0, 2);
  llvm::Expected<Keyframe> again = e.keyframe();
  REQUIRE(bool(again));
  CHECK(again->restorable);
}

TEST_CASE("after a loss queues may be busy until they are seen to be idle, or a later fence is") {
  Engine e;
  e.loss(LossCause::Unknown);
  CHECK(!e.state.quiescent());
  CHECK(e.saw(0x4, 4));
  e.loss(LossCause::Unknown);
  e.memoryWrite(fenceWord, std::vector<uint8_t>(8, 0));
  e.fence(0, 3);
  CHECK(!e.sawFence(3)); // q1 is as uncertain as before.
  CHECK(e.state.running() == std::vector<std::string>{"entries of q1 (perhaps: packets were lost)"});
  e.reset();
  CHECK(e.state.quiescent());
}

TEST_CASE("bounds: more than is remembered is never quiet, and costs nothing") {
  ShadowLimits limits;
  limits.outstanding = 4;
  Engine e(limits);
  for (int i = 0; i < 6; ++i)
    e.math(0);
  CHECK(!e.saw(0x2c, 6));
  CHECK(!e.saw(0x34, 6));
  CHECK(e.saw(0x4, 4));
  // Rows of any number and size.
  Packet packet;
  packet.kind = PacketKind::DmaDescriptor;
  packet.flags = TransferFromDevice;
  packet.address = 0x1800;
  PacketExtra extra;
  extra.length = ~uint64_t(0);
  extra.count = uint64_t(1) << 40;
  extra.expected = uint64_t(1) << 60;
  e.apply(packet, extra);
  packet.kind = PacketKind::MemoryWrite;
  packet.flags = 0;
  extra.count = 3;
  extra.length = 9;
  extra.payload = e.PacketScript::store({1, 2, 3, 4, 5, 6, 7, 8, 9});
  e.apply(packet, extra);
  CHECK(e.state.lastWriterOfMemory(0x1802).has_value());
}
