// The loop on QEMU's NVMe controller: what nvme-exercise does there replays there without a false divergence,
// with memory elsewhere and with completions in another order too; with other data on the medium the first
// divergent packet and byte are those that follow from the tape and the pattern, not from the tools.
#include "format/TapeReader.h"
#include "format/TapeWriter.h"
#include "format/Text.h"
#include "tests/support/NeedQemu.h"
#include "tests/support/RunProgram.h"
#include <doctest/doctest.h>
#include <map>
#include <set>
#include <utility>

using namespace tapeback;
using namespace tapeback::test;
using std::chrono::seconds;

namespace {

RunResult runTapeback(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), tapebackProgram());
  RunOptions options;
  options.timeout = seconds(300);
  return runProgram(arguments, options);
}

llvm::json::Object parseOutput(const RunResult &result) {
  llvm::Expected<llvm::json::Value> value = parseJson(result.out, "output", {64u << 20, 64});
  REQUIRE_MESSAGE(bool(value), result);
  llvm::json::Object *object = value->getAsObject();
  REQUIRE(object);
  return std::move(*object);
}

constexpr const char *recordedOn = "qemu:nvme?pattern=index&medium=1M";

/// Made once for the whole test program. TAPEBACK_NVME_TAPE=FILE: one that was made elsewhere, on a medium
/// that TAPEBACK_NVME_MEDIUM describes ("medium=4M"); tests/e2e/NvmeCampaign.py has its tapes looked at so.
const std::string &tape() {
  static ScratchDirectory scratch;
  static std::string path;
  if (const char *given = std::getenv("TAPEBACK_NVME_TAPE"))
    path = given;
  if (path.empty()) {
    path = scratch.file("nvme.tape");
    RunResult result = runTapeback({"record", "--json", "--target", recordedOn, "-o", path, "--",
                                    buildProgram("nvme-exercise"), "--seed", "11", "--ops", "60"});
    REQUIRE_MESSAGE(result.exited(0), result);
  }
  return path;
}

llvm::json::Object replay(const std::string &target, int exitCode, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments{"replay", tape(), "--json", "--target", target};
  arguments.insert(arguments.end(), more.begin(), more.end());
  RunResult result = runTapeback(arguments);
  CHECK_MESSAGE(result.exited(exitCode), result);
  return parseOutput(result);
}

uint64_t number(llvm::ArrayRef<uint8_t> bytes, size_t at, size_t width) {
  uint64_t value = 0;
  for (size_t i = 0; i < width; ++i)
    value |= uint64_t(bytes[at + i]) << (8 * i);
  return value;
}

/// The tape, read once.
struct Whole {
  std::unique_ptr<TapeReader> reader = cantFail(TapeReader::open(tape()));
  uint64_t packets = reader->summary().packets;
  PacketBatch batch;

  Whole() { cantFail(reader->readPackets(0, packets, batch)); }
  std::vector<uint8_t> content(const PacketExtra &extra) const {
    return extra.payload ? cantFail(reader->blob(extra.payload)).vec() : std::vector<uint8_t>();
  }
  /// A tape of the same device and packets but some.
  void writeWithout(const std::set<uint64_t> &left, const std::string &path) const {
    WriterOptions options;
    options.syncOnFinish = false;
    std::unique_ptr<TapeWriter> writer = cantFail(TapeWriter::create(path, reader->manifest(), options));
    for (const DeviceRecord &device : reader->devices())
      cantFail(writer->addDevice(device));
    for (const std::string &space : reader->spaces().drop_front())
      cantFail(writer->addSpace(space));
    for (const TapeClock &clock : reader->clocks().drop_front())
      cantFail(writer->addClock(clock));
    for (uint64_t i = 0; i < packets; ++i) {
      if (left.count(i))
        continue;
      PacketExtra extra = batch.extra(batch.packets[i]);
      if (extra.payload)
        cantFail(writer->blob(cantFail(reader->blob(extra.payload))));
      if (linksToPacket(batch.packets[i].kind) && extra.link != noLink)
        extra.link -= uint64_t(std::distance(left.begin(), left.lower_bound(extra.link)));
      cantFail(writer->append(batch.packets[i], extra));
    }
    cantFail(writer->finish(reader->outcome()));
  }
};

/// Where a medium of zeroes must first show: the first byte other than zero that a read brought from blocks
/// which nobody had changed since the beginning.
struct Place {
  uint64_t packet = 0, byte = 0;
};
Place firstOfTheMedium(TapeReader &reader) {
  struct Piece {
    uint64_t block, offset;
  };
  std::map<uint64_t, Piece> pieces; // By descriptor.
  std::map<std::pair<uint64_t, uint64_t>, std::vector<uint8_t>> commands;
  std::map<std::pair<uint64_t, uint64_t>, std::vector<uint8_t>> deallocated; // What names the blocks.
  std::set<uint64_t> changed;
  std::vector<uint8_t> command;
  std::pair<uint64_t, uint64_t> key;
  PacketBatch batch;
  uint64_t packets = reader.summary().packets;
  llvm::Error error = reader.readPackets(0, packets, batch);
  REQUIRE(!error);
  for (uint64_t i = 0; i < packets; ++i) {
    const Packet &packet = batch.packets[i];
    const PacketExtra &extra = batch.extra(packet);
    if (packet.kind == PacketKind::Submit) {
      command = reader.blob(extra.payload)->vec();
      key = {packet.value, extra.count};
      if (packet.value != 0)
        commands[key] = command;
    } else if (packet.kind == PacketKind::DmaDescriptor && (packet.flags & TransferToDevice) &&
               key.first != 0 && command.size() == 64 && command[0] == 9) {
      llvm::ArrayRef<uint8_t> content = *reader.blob(extra.payload);
      deallocated[key].insert(deallocated[key].end(), content.begin(), content.end());
    } else if (packet.kind == PacketKind::DmaDescriptor && (packet.flags & TransferFromDevice) &&
               command.size() == 64 && command[0] == 2 && number(command, 4, 4) == 1) {
      pieces[i] = {number(command, 40, 8), packet.value};
    } else if (packet.kind == PacketKind::CommandDone && commands.count({packet.value, extra.count})) {
      const std::vector<uint8_t> &done = commands[{packet.value, extra.count}];
      bool changes = done[0] == 1 || done[0] == 8;
      for (uint64_t b = 0; changes && b <= number(done, 48, 2); ++b)
        changed.insert(number(done, 40, 8) + b);
      // Deallocation names its blocks in memory.
      const std::vector<uint8_t> &ranges = deallocated[{packet.value, extra.count}];
      for (size_t at = 0; done[0] == 9 && at + 16 <= ranges.size(); at += 16)
        for (uint64_t b = 0; b < number(ranges, at + 4, 4); ++b)
          changed.insert(number(ranges, at + 8, 8) + b);
    } else if (packet.kind == PacketKind::DmaCompletion && pieces.count(extra.link)) {
      llvm::ArrayRef<uint8_t> content = *reader.blob(extra.payload);
      Piece piece = pieces[extra.link];
      for (uint64_t byte = 0; byte < content.size(); ++byte)
        if (content[byte] && !changed.count(piece.block + (piece.offset + byte) / 512))
          return {i, byte};
    }
  }
  return {};
}

} // namespace

TEST_CASE("nvme: commands and completions are recorded by name, data once") {
  TB_NEED_QEMU();
  RunResult dump = runTapeback({"dump", tape()});
  REQUIRE(dump.exited(0));
  for (const char *text :
       {"IDENTIFY cid=", "CREATE_IO_SQ cid=", "WRITE cid=", "READ cid=", "DELETE_IO_CQ cid=",
        "CC (bar0+0x14) <- 0x460001 EN=0x1", "SQ1TDBL", "command-done", "status=0x0"})
    CHECK_MESSAGE(dump.out.find(text) != std::string::npos, text);
  llvm::Expected<std::unique_ptr<TapeReader>> reader = TapeReader::open(tape());
  REQUIRE(bool(reader));
  PacketBatch batch;
  uint64_t packets = (*reader)->summary().packets;
  llvm::Error error = (*reader)->readPackets(0, packets, batch);
  REQUIRE(!error);
  // Each command is handed over once and done once, and no transfer of it stays open.
  std::map<std::pair<uint64_t, uint64_t>, int> submitted, done;
  std::set<uint64_t> open;
  unsigned lists = 0;
  for (uint64_t i = 0; i < packets; ++i) {
    const Packet &packet = batch.packets[i];
    const PacketExtra &extra = batch.extra(packet);
    if (packet.kind == PacketKind::Submit)
      ++submitted[{packet.value, extra.count}];
    if (packet.kind == PacketKind::CommandDone)
      ++done[{packet.value, extra.count}];
    if (packet.kind == PacketKind::DmaDescriptor) {
      open.insert(i);
      lists += packet.value > 2 * 4096;
      CHECK(!(packet.flags & NotCaptured));
    }
    if (packet.kind == PacketKind::DmaCompletion)
      CHECK(open.erase(extra.link) == 1);
  }
  CHECK(open.empty());
  CHECK(lists > 0); // Pages that only a list names.
  CHECK(submitted.size() >= 60);
  CHECK(submitted == done);
}

TEST_CASE(
    "nvme: counters are what the device's log page says, and the reads it counts are those on the tape") {
  TB_NEED_QEMU();
  Whole whole;
  struct Counter {
    const char *name;
    size_t offset;
  };
  static constexpr Counter counters[] = {
      {"data_units_read", 32}, {"data_units_written", 48}, {"host_reads", 64},        {"host_writes", 80},
      {"power_cycles", 112},   {"power_on_hours", 128},    {"unsafe_shutdowns", 144}, {"media_errors", 160}};
  std::map<std::pair<uint64_t, uint64_t>, std::vector<uint8_t>> commands;
  std::vector<uint8_t> page;                      // The last log page that came.
  std::map<uint64_t, std::vector<uint8_t>> asked; // Its descriptor, to the command.
  std::vector<uint8_t> command;
  uint64_t reads = 0, readsThen = 0, pages = 0, snapshots = 0;
  for (uint64_t i = 0; i < whole.packets; ++i) {
    const Packet &packet = whole.batch.packets[i];
    const PacketExtra &extra = whole.batch.extra(packet);
    if (packet.kind == PacketKind::Submit) {
      command = whole.content(extra);
      commands[{packet.value, extra.count}] = command;
    } else if (packet.kind == PacketKind::DmaDescriptor && command.size() == 64 && command[0] == 2 &&
               command[40] == 2 && (packet.flags & TransferFromDevice) && extra.length == 512 &&
               number(command, 4, 4) == 0xffffffff) {
      asked[i] = command;
    } else if (packet.kind == PacketKind::CommandDone && packet.value != 0) {
      const std::vector<uint8_t> done = whole.content(extra);
      reads += commands[{packet.value, extra.count}][0] == 2 && number(done, 14, 2) >> 1 == 0;
    } else if (packet.kind == PacketKind::DmaCompletion && asked.count(extra.link)) {
      page = whole.content(extra);
      readsThen = reads;
      ++pages;
    } else if (packet.kind == PacketKind::CounterSnapshot) {
      REQUIRE(packet.address < std::size(counters));
      const Counter &counter = counters[packet.address];
      REQUIRE(page.size() == 512);
      CHECK_MESSAGE(packet.value == number(page, counter.offset, 8), counter.name);
      if (std::string(counter.name) == "host_reads") // No command was under way.
        CHECK(packet.value == readsThen);
      ++snapshots;
    }
  }
  CHECK(pages >= 1);
  CHECK(reads >= 1);
  CHECK(snapshots == pages * std::size(counters));
}

TEST_CASE("nvme: a command that is never handed over is missed where the host saw it done") {
  TB_NEED_QEMU();
  // The same tape without the last doorbell that a queue for reads and writes needed, and those that say it
  // again.
  Whole whole;
  auto isDoorbell = [](const Packet &packet) {
    return packet.kind == PacketKind::RegisterWrite && packet.address > 0x1004 && packet.address % 8 == 0;
  };
  std::map<uint64_t, uint64_t> tails;             // By address; a queue begins at 0.
  std::map<uint64_t, std::set<uint64_t>> waiting; // Entries by queue, until their doorbell.
  std::set<uint64_t> entries;
  uint64_t needed = 0, missed = 0;
  for (uint64_t i = 0; i < whole.packets; ++i) {
    const Packet &packet = whole.batch.packets[i];
    if (packet.kind == PacketKind::Submit)
      waiting[packet.value].insert(whole.batch.extra(packet).count);
    if (isDoorbell(packet) && std::exchange(tails[packet.address], packet.value) != packet.value) {
      needed = i;
      entries = std::exchange(waiting[(packet.address - 0x1000) / 8], {});
    }
  }
  REQUIRE(needed != 0);
  const uint64_t address = whole.batch.packets[needed].address;
  std::set<uint64_t> left;
  for (uint64_t i = needed; i < whole.packets; ++i) {
    const Packet &packet = whole.batch.packets[i];
    // Nor is there the program's own wait for the completion, as in a program that looks at its memory by
    // itself.
    if ((isDoorbell(packet) && packet.address == address) ||
        (!missed && packet.kind == PacketKind::MemoryWait))
      left.insert(i);
    if (!missed && packet.kind == PacketKind::CommandDone && packet.value == (address - 0x1000) / 8 &&
        entries.count(whole.batch.extra(packet).count))
      missed = i - left.size();
  }
  REQUIRE(missed != 0);
  ScratchDirectory scratch;
  const std::string path = scratch.file("without.tape");
  whole.writeWithout(left, path);
  RunResult result = runTapeback({"replay", path, "--json", "--target", recordedOn, "--max-wait", "1"});
  CHECK_MESSAGE(result.exited(1), result);
  llvm::json::Object output = parseOutput(result);
  CHECK(output.getString("verdict") == "divergence");
  const llvm::json::Object *first = output.getObject("first_divergence");
  REQUIRE(first);
  CHECK_MESSAGE(first->getInteger("packet") == int64_t(missed), result);
  CHECK(first->getString("kind") == "command-done");
  CHECK(first->getString("grade") == "timeout");
}

TEST_CASE("nvme: what was recorded replays, with memory elsewhere and completions in another order too") {
  TB_NEED_QEMU();
  CHECK(replay(recordedOn, 0).getString("verdict") == "match");
  CHECK(replay(recordedOn, 0, {"--relocate", "fragment"}).getString("verdict") == "match");
  // Anywhere, though the machine's memory ends long before the controller's addresses do.
  CHECK(replay(recordedOn, 0, {"--relocate", "seed=3"}).getString("verdict") == "match");
  llvm::json::Object shadowed =
      replay(recordedOn, 0, {"--shadow", std::string(recordedOn) + "&write-iops=400"});
  CHECK(shadowed.getString("verdict") == "match");
  CHECK(replay(std::string(recordedOn) + "&read-iops=400", 0).getString("verdict") == "match");
}

TEST_CASE("nvme: other data on the medium shows where it is first read") {
  TB_NEED_QEMU();
  llvm::Expected<std::unique_ptr<TapeReader>> reader = TapeReader::open(tape());
  REQUIRE(bool(reader));
  Place place = firstOfTheMedium(**reader);
  REQUIRE(place.packet != 0);
  const char *medium = std::getenv("TAPEBACK_NVME_MEDIUM");
  llvm::json::Object output =
      replay(std::string("qemu:nvme?pattern=zero&") + (medium ? medium : "medium=1M"), 1);
  CHECK(output.getString("verdict") == "divergence");
  const llvm::json::Object *first = output.getObject("first_divergence");
  REQUIRE(first);
  CHECK(first->getInteger("packet") == int64_t(place.packet));
  CHECK(first->getInteger("window") == int64_t(cantFail((*reader)->windowOfPacket(place.packet))));
  CHECK(first->getInteger("offset") == int64_t(place.byte));
}

TEST_CASE(
    "nvme: a smaller namespace shows in what identifies it, and in the statuses of commands behind its end") {
  TB_NEED_QEMU();
  RunResult result = runTapeback({"replay", tape(), "--target", "qemu:nvme?pattern=index&medium=64K"});
  CHECK_MESSAGE(result.exited(1), result);
  size_t first = result.out.find("first divergence: "), identify = result.out.find(" IDENTIFY cid=");
  REQUIRE(first != std::string::npos);
  CHECK(identify < result.out.find('\n', first));
  // The status is in the last two bytes of 16; success was recorded.
  CHECK_MESSAGE(result.out.find("(command-done memory at 0x") != std::string::npos, result);
  CHECK_MESSAGE(result.out.find(", byte 15: recorded 0x0, replayed 0x") != std::string::npos, result);
}
