// Packets that nobody honest would write: no crash, no memory without bound, no answer that is wrong.
#include "EduDescription.h"
#include "PacketScript.h"
#include "hal/state/ContentMap.h"
#include "hal/state/OrdinalMap.h"
#include <chrono>
#include <random>

using namespace tapeback;

static constexpr uint64_t top = ~uint64_t(0);

TEST_CASE("lengths that cannot be") {
  PacketScript script(&eduDescription());
  for (PacketKind kind :
       {PacketKind::MemoryWrite, PacketKind::MemoryRead, PacketKind::Acquire, PacketKind::Submit,
        PacketKind::DmaDescriptor, PacketKind::DmaCompletion, PacketKind::MemoryMap, PacketKind::MemoryUnmap})
    for (uint64_t address : {uint64_t(0), uint64_t(0x1000), top})
      for (uint64_t length : {uint64_t(0), uint64_t(1), top, top - 0x1000})
        for (uint8_t flags : {0, int(TransferToDevice), int(TransferFromDevice), int(NotCaptured), 0xff})
          script.range(kind, address, length, flags, top, 0);
  CHECK(script.state.lastWriterOfMemory(top) == script.state.lastWriterOfMemory(top));
  script.reset();
  uint64_t writer = script.range(PacketKind::MemoryWrite, top - 1, top);
  CHECK(script.state.lastWriterOfMemory(top) == writer);
  CHECK(script.state.lastWriterOfMemory(0) != writer);
  writer = script.range(PacketKind::MemoryWrite, 0, top);
  CHECK(script.state.lastWriterOfMemory(0) == writer);
  CHECK(script.state.lastWriterOfMemory(top - 1) == writer);
  script.content(PacketKind::MemoryWrite, top - 1, bytesOf("abcd"));
  CHECK(script.memory(top - 1, 2) == "ab");
  CHECK(script.memory(top - 1, 4) == "ab??"); // Nothing wraps around.
  CHECK(script.memory(0, 2) == "??");
}

TEST_CASE("widths, kinds, links and devices that cannot be") {
  PacketScript script(&eduDescription());
  for (int kind = 0; kind < 256; ++kind)
    for (uint8_t width : {0, 3, 5, 7, 9, 64, 255}) {
      Packet packet;
      packet.kind = PacketKind(kind);
      packet.width = width;
      packet.space = 1;
      packet.address = 0x98;
      packet.value = 1;
      packet.completion = Completion(kind % 7);
      packet.extra = 0xffffffff;
      PacketExtra extra;
      extra.link = kind;
      extra.length = 1;
      script.apply(packet, extra);
    }
  script.reset();
  CHECK(!script.state.registerValue(1, 0x60));
  CHECK(script.state.commands() <= 256 * 7);
  script.range(PacketKind::DmaDescriptor, 0x1000, 4, TransferToDevice, 0x40000,
               1u << 31); // No such activity.
  CHECK(script.state.running() == std::vector<std::string>{"a transfer"});
  CHECK(script.window(0x40000, 1) == std::string(1, '\0'));
  script.finishDma(script.next - 1, 0x1000);
  CHECK(script.state.quiescent());
}

TEST_CASE("a description whose windows lie at the end of the address space") {
  Description d = descriptionOf(R"(
tapeback-description: 1
name: d
spaces: [bar0]
registers: [{name: A, offset: 0, width: 8}, {name: GO, offset: 0xffff_ffff_ffff_fff8, width: 8}]
windows: [{name: buffer, base: 0, size: 0xffff_ffff_ffff_ffff, reset: 46}, {name: last, base: 0xffff_ffff_ffff_fff0, size: 16}]
activities:
  - name: go
    starts: {register: GO, any: true}
    done: [{register: GO, any: true}]
    transfers: [{direction: to-device, host-address: A, device-address: A, count: A, window: buffer}]
restore: [{window: buffer}]
)");
  PacketScript script(&d);
  script.reset();
  CHECK(script.keyframe()->restorable);
  CHECK(script.window(top - 2, 4) == "..??");
  script.write(0, top, 8);
  script.write(top - 7, 1, 8);
  script.read(top - 7, 1, 8);
  CHECK(script.window(0, 2) == "..");
  script.content(PacketKind::DmaDescriptor, 0, bytesOf("abcdefgh"), TransferToDevice, top - 3, 0);
  script.finishDma(script.next - 1, 0);
  CHECK(script.window(top - 4, 6) == ".abc??");
  CHECK(script.keyframe()->restorable);
  script.range(PacketKind::DmaDescriptor, 0, top, TransferToDevice, 0x1000, 0);
  script.finishDma(script.next - 1, 0);
  CHECK(script.keyframe()->reason == "the content of window buffer is not known at 0x1000");
}

TEST_CASE("a hundred thousand packets of noise stay quick and small") {
  ShadowLimits limits;
  limits.pages = 64;
  limits.writers = 256;
  limits.mappings = 64;
  limits.undescribedRegisters = 64;
  limits.outstanding = 64;
  limits.markers = 16;
  PacketScript script(&eduDescription(), limits);
  std::mt19937_64 random(1);
  auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 100000; ++i) {
    Packet packet;
    packet.kind = PacketKind(random() % (packetKindCount + 1));
    if (packet.kind == PacketKind::Reset && random() % 64)
      continue;
    packet.space = uint16_t(random() % 3);
    packet.width = uint8_t(1u << random() % 4);
    packet.address = random() % 4 ? (random() % 0x140) & ~uint64_t(3) : random() << random() % 64;
    packet.value = random() >> random() % 64;
    packet.flags = uint8_t(random());
    packet.completion = Completion(random() % 4);
    PacketExtra extra;
    extra.length = random() >> random() % 64;
    extra.link = random() % (i + 1);
    extra.payload = {1, random() % 4};
    script.blobs[random() % 4] = std::vector<uint8_t>(random() % 10000, uint8_t(i));
    script.apply(packet, extra);
  }
  auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  CHECK(seconds < 30);
  llvm::Expected<Keyframe> keyframe = script.keyframe();
  REQUIRE(bool(keyframe));
  CHECK(keyframe->mappings.size() <= 64);
  CHECK(keyframe->registers.size() <= 11 + 64);
}

TEST_CASE("OrdinalMap agrees with an array, whatever is assigned and forgotten") {
  OrdinalMap map(1000);
  std::vector<std::optional<uint64_t>> array(300);
  std::mt19937 random(2);
  for (uint64_t round = 0; round < 5000; ++round) {
    uint64_t first = random() % array.size(),
             last = std::min<uint64_t>(first + random() % 20, array.size() - 1);
    std::optional<uint64_t> ordinal;
    if (random() % 3)
      ordinal = round / 4; // Neighbours of one ordinal grow together.
    if (ordinal)
      map.assign(first, last, *ordinal);
    else
      map.forget(first, last);
    std::fill(array.begin() + ptrdiff_t(first), array.begin() + ptrdiff_t(last) + 1, ordinal);
    if (round % 50 && round < 4900)
      continue;
    std::optional<uint64_t> next;
    for (size_t i = array.size(); i-- > 0;) {
      next = array[i] ? std::optional<uint64_t>(i) : next;
      REQUIRE(map.find(i) == array[i]);
      REQUIRE(map.nextFrom(i) == next);
    }
  }
  CHECK(!map.evicted());
  CHECK(map.size() <= array.size());
  map.assign(5, 4, 1); // Empty.
  map.forget(5, 4);
  map.assign(0, top, 7);
  CHECK(map.size() == 1);
  CHECK(map.find(top) == 7);
  map.forget(1, top - 1);
  CHECK(map.find(0) == 7);
  CHECK(map.find(top) == 7);
  CHECK(!map.find(1));
}

TEST_CASE("ContentMap agrees with an array") {
  PageBudget budget(100);
  ContentMap map(budget);
  constexpr size_t size = 20000;
  const uint64_t base = top - size + 1; // Up to the last address there is.
  std::vector<int> array(size, -1);
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    size_t first = random() % size, count = 1 + random() % (round % 10 ? 40 : 9000);
    size_t end = std::min(first + count, size);
    if (random() % 3 == 0) {
      map.forget(base + first, base + (end - 1));
      std::fill(array.begin() + ptrdiff_t(first), array.begin() + ptrdiff_t(end), -1);
      continue;
    }
    std::vector<uint8_t> content(count); // Perhaps past the end: cut.
    for (uint8_t &byte : content)
      byte = uint8_t(random() % 3);
    if (random() % 2) {
      map.store(base + first, content);
    } else {
      std::vector<bool> told(size);
      map.observe(base + first, content, [&](uint64_t from, uint64_t to) {
        for (uint64_t at = from; at <= to && at >= from; ++at)
          told[size_t(at - base)] = true;
      });
      for (size_t i = first; i < end; ++i)
        REQUIRE(told[i] == (array[i] >= 0 && array[i] != content[i - first]));
    }
    for (size_t i = first; i < end; ++i)
      array[i] = content[i - first];
    if (round % 100)
      continue;
    std::vector<uint8_t> bytes(size);
    auto known = std::make_unique<bool[]>(size);
    size_t loaded = map.load(base, bytes, llvm::MutableArrayRef<bool>(known.get(), size));
    CHECK(loaded == size_t(std::count_if(array.begin(), array.end(), [](int value) { return value >= 0; })));
    for (size_t i = 0; i < size; ++i) {
      REQUIRE(known[i] == (array[i] >= 0));
      if (known[i])
        REQUIRE(bytes[i] == array[i]);
    }
    uint64_t unknown = 0;
    auto hole = std::find(array.begin() + ptrdiff_t(first), array.end(), -1);
    bool found = map.firstUnknown(base + first, top, unknown);
    REQUIRE(found == (hole != array.end()));
    if (found)
      REQUIRE(unknown == base + uint64_t(hole - array.begin()));
  }
  size_t pages = map.pageCount();
  CHECK(pages <= 6);
  map.clear();
  for (size_t i = 0; i < 100; ++i) // All of the budget has come back.
    CHECK(budget.take());
  CHECK(!budget.take());
  CHECK(budget.refused());
}
