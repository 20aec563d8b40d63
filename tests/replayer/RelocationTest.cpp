// Replays whose memory is elsewhere than the tape has it: they must match, and a pointer that is left out
// must show.
#include "replayer/Relocation.h"
#include "replayer/MemoryLayout.h"
#include "tests/replayer/QueueProgram.h"
#include "tests/replayer/ReplayHarness.h"
#include "llvm/ADT/StringExtras.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

constexpr uint64_t data = QueueProgram::data, fence = data + 0x8000, list = data + 0x9000;
constexpr const char *layouts[] = {"shift=0x1000000", "shift=0x345670000000", "fragment", "reverse",
                                   "seed=3"};

std::vector<uint8_t> pattern(size_t size, uint8_t seed) {
  std::vector<uint8_t> bytes(size);
  for (size_t i = 0; i < size; ++i)
    bytes[i] = uint8_t(seed + 7 * i + i / 64);
  return bytes;
}

std::vector<uint8_t> descriptor(uint64_t host, uint32_t spad, bool isStore, std::optional<uint64_t> next) {
  uint32_t words[16] = {
      uint32_t(host), uint32_t(host >> 32), spad, 32, 4, 64, 32, uint32_t(isStore) | (next ? 0u : 2u)};
  words[8] = uint32_t(next.value_or(0));
  words[9] = uint32_t(next.value_or(0) >> 32);
  const auto *bytes = reinterpret_cast<const uint8_t *>(words);
  return {bytes, bytes + sizeof words};
}

/// Every kind of address there is: ring, rows in the middle of memory, a list forwards and back, a fence; and
/// content that is addresses read back.
std::unique_ptr<MemoryTape> everyAddress(bool writesOwnList = false) {
  QueueProgram program;
  program.store(data, pattern(0x400, 1));
  program.store(data + 0x1000, std::vector<uint8_t>(0x1000, 0xee));
  program.store(list + 0x80, descriptor(data + 0x40, 0x400, false, list));
  program.store(list, descriptor(data + 0x1800, 0x400, true, {}));
  program.submit(0, minnow_dma(MINNOW_DMA_LOAD, data + 0x20, 0, 32, 4, 256, 32));
  auto store =
      program.submit(0, minnow_dma(MINNOW_DMA_STORE, writesOwnList ? list : data + 0x1000, 0, 16, 8, 64, 16));
  program.submit(0, minnow_dma_chain(list + 0x80));
  program.submit(0, minnow_fence(fence, 7, 0));
  program.doorbell(0);
  if (writesOwnList)
    return program.finish();
  program.wait(fence, 7);
  program.completion(*store.descriptor);
  program.acquire(data + 0x1000, 0x1000);
  program.acquire(list, 0x100);
  program.acquire(list + 3, 0x83); // Parts of pointers at both ends.
  program.acquire(QueueProgram::base, 256);
  program.read(MINNOW_QUEUE + MINNOW_Q_BASE_LO);
  program.read(MINNOW_QUEUE + MINNOW_Q_BASE_HI);
  // The same list once more, with another pointer in it, of which half is written.
  program.store(data + 0x2040, pattern(0x100, 9));
  uint8_t low[4] = {uint8_t(data + 0x2040), uint8_t((data + 0x2040) >> 8), uint8_t((data + 0x2040) >> 16),
                    uint8_t((data + 0x2040) >> 24)};
  program.store(list + 0x80, low);
  program.submit(0, minnow_dma_chain(list + 0x80));
  program.submit(0, minnow_fence(fence, 8, 0));
  program.doorbell(0);
  program.wait(fence, 8);
  program.acquire(data + 0x1800, 0x200);
  // Beyond the end of memory: the address of the error goes along.
  program.submit(0,
                 minnow_dma(MINNOW_DMA_LOAD, QueueProgram::base + QueueProgram::size - 32, 0, 64, 1, 64, 64),
                 NotCaptured);
  program.doorbell(0);
  program.settle();
  Packet halted;
  halted.kind = PacketKind::Poll;
  halted.space = 1;
  halted.width = 4;
  halted.address = MINNOW_STATUS;
  halted.value = 0x203;
  PacketExtra condition;
  condition.mask = condition.expected = MINNOW_STATUS_HALTED;
  condition.deadline = 1'000'000;
  program.raw(halted, condition);
  for (uint64_t offset : {MINNOW_ERR_CODE, MINNOW_ERR_ADDR_LO, MINNOW_ERR_ADDR_HI})
    program.read(offset);
  return program.finish();
}

struct Played {
  std::optional<ReplayReport> report;
  std::optional<Failure> failure;
  uint64_t moved() const { return report ? report->relocation.at(0).moved : 0; }
};

Played play(const MemoryTape &tape, llvm::StringRef layout, std::string description = {}) {
  Played played;
  auto source = llvm::cantFail(TapeSource::create(tape.copy(), {description}));
  std::unique_ptr<FilterTarget> target = openMinnow();
  Target *raw = target.get();
  ReplayOptions options = quickOptions();
  options.player.binding.layout = llvm::cantFail(parseMemoryLayout(layout));
  if (llvm::Expected<ReplayReport> report = replayTape(*source, raw, options))
    played.report = std::move(*report);
  else
    played.failure = toFailure(report.takeError());
  return played;
}

std::string summary(const Played &played) {
  if (played.failure)
    return played.failure->code + ": " + played.failure->message;
  std::string text = verdictName(played.report->verdict);
  if (played.report->firstDivergence)
    text += "; " + divergenceText(*played.report->firstDivergence);
  return text;
}

} // namespace

TEST_CASE("Layouts have names, and others are refused with a list") {
  for (const char *text :
       {"auto", "never", "shift=0x1000", "shift=-0x1000", "fragment", "reverse", "seed=7"}) {
    llvm::Expected<MemoryLayout> layout = parseMemoryLayout(text);
    REQUIRE_MESSAGE(bool(layout), text);
    CHECK(memoryLayoutText(*layout) == text);
  }
  for (const char *text :
       {"", "up", "shift", "shift=", "shift=x", "shift=1", "auto=1", "seed", "seed=-1", "reverse="}) {
    llvm::Expected<MemoryLayout> layout = parseMemoryLayout(text);
    REQUIRE_MESSAGE(!layout, text);
    CHECK(toFailure(layout.takeError()).code == "bad-option");
  }
}

TEST_CASE("Live ranges that would overlap are refused, with both") {
  AddressMap map;
  REQUIRE(!map.add({0x1000, 0x9000, 0x2000}));
  CHECK(map.moves());
  auto refused = [&](PlacedRange range) {
    llvm::Error error = map.add(range);
    REQUIRE(bool(error));
    return toFailure(std::move(error));
  };
  CHECK(refused({0x2fff, 0x20000, 0x10}).code == "relocation-overlap"); // As recorded.
  Failure placed = refused({0x8000, 0xafff, 0x10});
  CHECK(placed.code == "relocation-overlap");
  CHECK(placed.message.find("8192 bytes at 0x1000, placed at 0x9000") != std::string::npos);
  CHECK(refused({0x8000, 0x8000, 0x1001}).code == "relocation-overlap");
  CHECK(refused({~uint64_t(0xfff), 0x100000, 0x2000}).code == "relocation-range");
  CHECK(refused({0x100000, ~uint64_t(0xfff), 0x2000}).code == "relocation-range");
  CHECK(refused({0x100000, 0x100000, 0}).code == "relocation-range");
  // Neighbours touch nobody.
  REQUIRE(!map.add({0x3000, 0x8000, 0x1000}));
  REQUIRE(!map.add({0x4000, 0xb000, 0x1000}));
  CHECK(map.toPlaced(0x1fff) == 0x9fff);
  CHECK(map.toPlaced(0x3000) == 0x8000);
  CHECK(map.toPlaced(0x5008) == 0xc008); // Behind the last: it goes along.
  CHECK(map.toPlaced(0x10) == 0x10);
  CHECK(map.toRecorded(0x8001) == 0x3001);
  CHECK(!map.toRecorded(0xc000));
  // From 0x1000 on memory goes on at 0x3000, but not here.
  CHECK(map.piece(0x2ff0, 0x20).size == 0x10);
  CHECK(map.piece(0x2ff0, 0x10).size == 0x10);
  // Not mapped in the recording, and would be now.
  REQUIRE(!map.add({0x900000, 0x400000, 0x1000}));
  llvm::Error clash = map.check(0x400010);
  REQUIRE(bool(clash));
  CHECK(toFailure(std::move(clash)).code == "relocation-clash");
  CHECK(!map.check(0x3000));
  map.remove(0x1000);
  map.remove(0x3000);
  map.remove(0x4000);
  map.remove(0x900000);
  CHECK(!map.moves());
}

TEST_CASE("Every layout keeps ranges apart, within reach, and at their place in the page") {
  for (const char *text : layouts) {
    RecordedExtent extent;
    for (uint64_t i = 0; i < 20; ++i)
      extent.add(0x1000000 + i * 0x3000, 0x2000);
    Placement placement(llvm::cantFail(parseMemoryLayout(text)), ~uint64_t(0), extent);
    AddressMap map;
    std::vector<uint64_t> order;
    for (uint64_t i = 0; i < 20; ++i) {
      uint64_t recorded = 0x1000000 + i * 0x3000;
      std::optional<uint64_t> placed = llvm::cantFail(placement.propose(recorded, 0x2000, map, 0));
      REQUIRE(placed);
      CHECK(*placed % 4096 == 0);
      CHECK_MESSAGE(*placed != recorded, text);
      REQUIRE_MESSAGE(!map.add({recorded, *placed, 0x2000}), text);
      order.push_back(*placed);
    }
    if (llvm::StringRef(text) == "reverse")
      CHECK(std::is_sorted(order.rbegin(), order.rend()));
    if (llvm::StringRef(text) == "fragment") {
      CHECK(std::is_sorted(order.begin(), order.end()));
      CHECK(order[1] - order[0] != order[2] - order[1]);
    }
  }
  // How far a target's memory reaches is not known: with each refusal a seed looks lower down.
  Placement seeded(llvm::cantFail(parseMemoryLayout("seed=7")), ~uint64_t(0), {});
  uint64_t highest = 0, lowest = ~uint64_t(0);
  for (unsigned attempt = 0; attempt + 1 < seeded.attempts(); ++attempt) {
    uint64_t placed = *llvm::cantFail(seeded.propose(0x1000000, 0x2000, {}, attempt));
    highest = std::max(highest, placed);
    lowest = std::min(lowest, placed);
  }
  CHECK(highest > uint64_t(1) << 32);
  CHECK(lowest < uint64_t(128) << 20);
  Placement narrow(llvm::cantFail(parseMemoryLayout("shift=0x10000000")), 0xfffffff, {});
  llvm::Expected<std::optional<uint64_t>> refused = narrow.propose(0x1000000, 4096, {}, 0);
  REQUIRE(!refused);
  CHECK(toFailure(refused.takeError()).code == "relocation-range");
}

TEST_CASE("Minnow replays at every layout: ring, rows, lists, fence, and what is read of them") {
  std::unique_ptr<MemoryTape> tape = everyAddress();
  Played there = play(*tape, "auto");
  CHECK_MESSAGE(there.report->verdict == Verdict::Match, summary(there));
  CHECK(there.moved() == 0);
  for (const char *layout : layouts) {
    CAPTURE(layout);
    Played played = play(*tape, layout);
    REQUIRE_MESSAGE(played.report, summary(played));
    CHECK_MESSAGE(played.report->verdict == Verdict::Match, summary(played));
    CHECK(played.moved() == 1);
    CHECK(played.report->relocation[0].pointers >= 8);
    CHECK(played.report->grades.of(Rule::Same) == there.report->grades.of(Rule::Same));
    CHECK(played.report->recordedDigest == there.report->recordedDigest);
    CHECK(played.report->replayedDigest == there.report->recordedDigest);
  }
}

TEST_CASE("An address that is left out of the description shows") {
  std::unique_ptr<MemoryTape> tape = everyAddress();
  const std::string whole = tape->theDevices[0].description, mark = ", address: true";
  unsigned fields = 0;
  for (size_t at = 0; (at = whole.find(mark, at)) != std::string::npos; at += mark.size()) {
    ++fields;
    std::string without = whole;
    without.erase(at, mark.size());
    CAPTURE(whole.substr(whole.rfind('\n', at), 60));
    if (llvm::Expected<Description> parsed = parseDescription(without, "without"); !parsed) {
      llvm::consumeError(parsed.takeError()); // Refused: noticed earlier still.
      continue;
    }
    Played played = play(*tape, "shift=0x1000000", without);
    CHECK_MESSAGE((played.failure || played.report->verdict != Verdict::Match), summary(played));
    CHECK(play(*tape, "auto", without).report->verdict == Verdict::Match);
  }
  CHECK(fields == 6);
  // The same for registers, of activities: the toy's.
  ToyProgram program;
  program.open();
  program.map(toyMemory, toyMemorySize);
  program.store(toyMemory + 0x100, pattern(64, 3));
  program.dma(true, toyMemory + 0x100, 0, 64);
  program.dma(false, toyMemory + 0x200, 0, 64);
  program.acquire(toyMemory + 0x200, 64);
  program.read(toy::source, 8);
  program.read(toy::destination, 8);
  std::unique_ptr<MemoryTape> toys = program.finish();
  ReplayOptions options = quickOptions();
  options.player.binding.layout = {MemoryLayout::Kind::Shift, 0x10000000};
  Replayed replayed = replay(*toys, {}, options);
  INFO(summary(replayed));
  CHECK(replayed->verdict == Verdict::Match);
  CHECK(replayed->relocation[0].registers == 2); // The buffer's own addresses are not the host's.
  toys->theDevices[0].description = {};
  Replayed blind = replay(*toys, {}, options);
  REQUIRE(blind.failure);
  CHECK(blind.failure->code == "relocation-unknown");
}

TEST_CASE("A list that the device writes itself cannot be changed in time, and is refused") {
  std::unique_ptr<MemoryTape> tape = everyAddress(/*writesOwnList=*/true);
  CHECK_MESSAGE(!play(*tape, "auto").failure, "where it was recorded it replays");
  Played refused = play(*tape, "shift=0x1000000");
  REQUIRE(refused.failure);
  CHECK(refused.failure->code == "relocation-unknown");
  CHECK(refused.failure->where.find("packet") != std::string::npos);
}

TEST_CASE("A transfer that runs into its neighbour needs its neighbour beside it") {
  for (bool reverse : {false, true}) {
    ToyProgram program;
    program.open();
    program.map(toyMemory, 4096);
    program.map(toyMemory + 4096, 4096);
    Packet packet;
    packet.kind = PacketKind::DmaDescriptor;
    packet.address = toyMemory + 4096 - 32;
    packet.flags = TransferFromDevice;
    PacketExtra extra;
    extra.length = 64;
    program.raw(packet, extra);
    ReplayOptions options = quickOptions();
    options.player.binding.layout = llvm::cantFail(parseMemoryLayout(reverse ? "reverse" : "shift=0x100000"));
    Replayed replayed = replay(*program.finish(), {}, options);
    INFO(summary(replayed));
    CHECK(replayed.failure.has_value() == reverse);
    if (reverse)
      CHECK(replayed.failure->code == "relocation-split");
  }
}

TEST_CASE("A target that places memory itself is relocated to without being asked") {
  ToyWorkload work = makeWorkload(5, 60);
  ToyOptions stubborn;
  stubborn.capabilities.chooseIova = false;
  stubborn.firstIova = 0x400000;
  Replayed replayed = replay(*work.tape, stubborn);
  INFO(summary(replayed));
  CHECK(replayed->verdict == Verdict::Match);
  CHECK(replayed->relocation[0].moved == 1);
  CHECK(replayed->relocation[0].layout == "auto");
  ToyOptions faulty = stubborn;
  auto fromDevice = std::find(work.dmaToDevice.begin(), work.dmaToDevice.end(), false);
  REQUIRE(fromDevice != work.dmaToDevice.end());
  faulty.faults.corruptDma = uint64_t(fromDevice - work.dmaToDevice.begin());
  CHECK(replay(*work.tape, faulty)->verdict == Verdict::Divergence);
}
