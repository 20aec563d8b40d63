// Runs of register accesses: applied in bulk they leave the state that they leave one by one.
#include "hal/state/ShadowState.h"
#include "tests/hal/state/EduDescription.h"
#include <random>

using namespace tapeback;

namespace {

/// A device with what makes an access more than a value: a status that ends an activity, a port, a queue's
/// progress, registers that are cleared by reads, by ones, or only one way.
const char *const deviceYaml = R"(
tapeback-description: 1
name: device
spaces: [bar0]
registers:
  - {name: PLAIN, offset: 0x0, width: 4, reset: 7}
  - {name: W1C, offset: 0x4, width: 4, class: w1c, reset: 0}
  - {name: FIFO, offset: 0x8, width: 4, class: fifo}
  - {name: ONLY, offset: 0xc, width: 4, access: ro}
  - {name: GO, offset: 0x10, width: 4, access: wo}
  - {name: STATUS, offset: 0x14, width: 4, access: ro}
  - {name: ADDRESS, offset: 0x18, width: 4}
  - {name: DATA, offset: 0x1c, width: 4}
windows:
  - {name: pad, base: 0, size: 256, reset: 0, port: {address: ADDRESS, data: DATA}}
activities:
  - name: run
    starts: {register: GO, mask: 1, value: 1}
    done: [{register: STATUS, mask: 1, value: 0}]
)";

struct Stream {
  std::vector<Packet> packets;
  explicit Stream(uint64_t seed) {
    std::mt19937_64 random(seed);
    for (unsigned i = 0; i < 400; ++i) {
      Packet packet;
      packet.kind = random() % 3 ? PacketKind::RegisterRead : PacketKind::RegisterWrite;
      packet.space = 1;
      packet.width = 4;
      packet.address = random() % 12 * 4;
      packet.value = random() % 4;
      if (random() % 25 == 0)
        packet.width = uint8_t(1u << random() % 4);
      if (random() % 25 == 0)
        packet.address += random() % 4;
      if (random() % 90 == 0)
        packet.kind = PacketKind::Reset;
      if (random() % 90 == 0)
        packet.completion = Completion::Failed;
      if (random() % 200 == 0)
        packet.kind = PacketKind::Loss;
      packets.push_back(packet);
    }
  }
};

bool isAccess(const Packet &packet) {
  return (packet.kind == PacketKind::RegisterRead || packet.kind == PacketKind::RegisterWrite) &&
         packet.completion == Completion::Done;
}

/// Everything that can be asked of a state, as text.
std::string answers(const ShadowState &state) {
  std::string text = (state.quiescent() ? "quiet " : "busy ") + std::to_string(state.commands());
  text += state.atSynchronisation() ? " at" : "";
  auto add = [&](std::optional<uint64_t> value) { text += " " + (value ? std::to_string(*value) : "-"); };
  for (uint64_t address = 0; address < 64; ++address) {
    add(state.registerValue(1, address));
    add(state.lastWriterOfRegister(1, address));
  }
  for (uint64_t byte = 0; byte < 16; ++byte)
    add(state.lastWriterOfWindow("pad", byte));
  bool known[256];
  uint8_t content[256] = {};
  text += " " + std::to_string(state.windowContent("pad", 0, content, known));
  for (uint8_t byte : content)
    text += " " + std::to_string(byte);
  return text;
}

/// Applies the stream in runs where that is possible. Returns how many packets were.
size_t inBulk(ShadowState &state, const std::vector<Packet> &packets) {
  std::map<std::pair<uint64_t, uint8_t>, std::optional<uint32_t>> keys;
  size_t bulk = 0;
  for (size_t i = 0; i < packets.size();) {
    std::vector<uint32_t> ofRun;
    while (i + ofRun.size() < packets.size() && isAccess(packets[i + ofRun.size()])) {
      const Packet &packet = packets[i + ofRun.size()];
      auto [it, fresh] = keys.try_emplace({packet.address, packet.width});
      if (fresh)
        it->second = state.accessKey(packet.space, packet.address, packet.width);
      if (!it->second)
        break;
      ofRun.push_back(*it->second);
    }
    size_t done = state.applyPlain(i, llvm::ArrayRef(packets).slice(i, ofRun.size()), ofRun);
    bulk += done;
    i += done;
    if (i < packets.size()) {
      state.apply(i, packets[i], {}, {});
      ++i;
    }
  }
  return bulk;
}

} // namespace

TEST_CASE("accesses in bulk leave the state that they leave one by one") {
  const Description device = descriptionOf(deviceYaml);
  size_t bulk = 0, differ = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const bool described = seed % 4 != 0;
    Stream stream(seed);
    ShadowState runs(described ? &device : nullptr, {"memory", "bar0"}, 0);
    ShadowState single(described ? &device : nullptr, {"memory", "bar0"}, 0);
    bulk += inBulk(runs, stream.packets);
    for (size_t i = 0; i < stream.packets.size(); ++i)
      single.apply(i, stream.packets[i], {}, {});
    CHECK(answers(runs) == answers(single));
    // The answers tell states apart: one more write is seen.
    Packet write;
    write.kind = PacketKind::RegisterWrite;
    write.space = 1;
    write.width = 4;
    write.value = 0x1234;
    single.apply(stream.packets.size(), write, {}, {});
    differ += answers(runs) != answers(single);
  }
  CHECK(differ == 200);
  CHECK(bulk > 40'000); // Of 80,000.
}

TEST_CASE("keys are as many as there is room for, and only for accesses of one whole register or of none") {
  const Description device = descriptionOf(deviceYaml);
  ShadowState state(&device, {"memory", "bar0"}, 0);
  CHECK(state.accessKey(1, 0, 4) == 0u);
  CHECK(state.accessKey(1, 0x100, 8) == 1u);
  CHECK(!state.accessKey(1, 0, 8)); // Two registers.
  CHECK(!state.accessKey(1, 0, 2)); // A part of one.
  CHECK(!state.accessKey(1, 0, 3));
  for (size_t i = 2; i < ShadowState::maxAccessKeys; ++i)
    REQUIRE(state.accessKey(1, 0x1000 + 8 * i, 8) == uint32_t(i));
  CHECK(!state.accessKey(1, 0x8, 4));
  state.forgetAccessKeys();
  CHECK(state.accessKey(1, 0x8, 4) == 0u);
}
