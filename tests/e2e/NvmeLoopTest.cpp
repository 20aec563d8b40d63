// The loop on QEMU's NVMe controller: what nvme-exercise does there replays there without a false divergence,
// with memory elsewhere and with completions in another order too; with other data on the medium the first
// divergent packet and byte are those that follow from the tape and the pattern, not from the tools.
#include "format/TapeReader.h"
#include "format/Text.h"
#include "tests/support/RunProgram.h"
#include "tests/support/Skip.h"
#include <doctest/doctest.h>
#include <map>
#include <set>

using namespace tapeback;
using namespace tapeback::test;
using std::chrono::seconds;

namespace {

bool haveQemu() {
  return std::system("command -v qemu-system-x86_64 >/dev/null 2>&1") == 0;
}

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

/// Made once for the whole test program.
const std::string &tape() {
  static ScratchDirectory scratch;
  static std::string path;
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
  std::set<uint64_t> changed;
  std::vector<uint8_t> command;
  PacketBatch batch;
  uint64_t packets = reader.summary().packets;
  llvm::Error error = reader.readPackets(0, packets, batch);
  REQUIRE(!error);
  for (uint64_t i = 0; i < packets; ++i) {
    const Packet &packet = batch.packets[i];
    const PacketExtra &extra = batch.extra(packet);
    if (packet.kind == PacketKind::Submit) {
      command = reader.blob(extra.payload)->vec();
      if (packet.value != 0)
        commands[{packet.value, extra.count}] = command;
    } else if (packet.kind == PacketKind::DmaDescriptor && (packet.flags & TransferFromDevice) &&
               command.size() == 64 && command[0] == 2 && number(command, 4, 4) == 1) {
      pieces[i] = {number(command, 40, 8), packet.value};
    } else if (packet.kind == PacketKind::CommandDone && commands.count({packet.value, extra.count})) {
      const std::vector<uint8_t> &done = commands[{packet.value, extra.count}];
      // Deallocation names its blocks in memory; the plan puts at most 172 behind the first.
      bool changes = done[0] == 1 || done[0] == 8;
      for (uint64_t b = 0; changes && b <= number(done, 48, 2); ++b)
        changed.insert(number(done, 40, 8) + b);
      if (done[0] == 9)
        return {}; // This oracle does not follow them.
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
  if (!haveQemu())
    TB_SKIP("there is no qemu-system-x86_64");
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

TEST_CASE("nvme: what was recorded replays, with memory elsewhere and completions in another order too") {
  if (!haveQemu())
    TB_SKIP("there is no qemu-system-x86_64");
  CHECK(replay(recordedOn, 0).getString("verdict") == "match");
  CHECK(replay(recordedOn, 0, {"--relocate", "fragment"}).getString("verdict") == "match");
  llvm::json::Object shadowed =
      replay(recordedOn, 0, {"--shadow", std::string(recordedOn) + "&write-iops=400"});
  CHECK(shadowed.getString("verdict") == "match");
  CHECK(replay(std::string(recordedOn) + "&read-iops=400", 0).getString("verdict") == "match");
}

TEST_CASE("nvme: other data on the medium shows where it is first read") {
  if (!haveQemu())
    TB_SKIP("there is no qemu-system-x86_64");
  llvm::Expected<std::unique_ptr<TapeReader>> reader = TapeReader::open(tape());
  REQUIRE(bool(reader));
  Place place = firstOfTheMedium(**reader);
  REQUIRE(place.packet != 0);
  llvm::json::Object output = replay("qemu:nvme?pattern=zero&medium=1M", 1);
  CHECK(output.getString("verdict") == "divergence");
  const llvm::json::Object *first = output.getObject("first_divergence");
  REQUIRE(first);
  CHECK(first->getInteger("packet") == int64_t(place.packet));
  CHECK(first->getInteger("window") == int64_t(cantFail((*reader)->windowOfPacket(place.packet))));
  CHECK(first->getInteger("offset") == int64_t(place.byte));
}

TEST_CASE(
    "nvme: a smaller namespace shows in what identifies it, and in the statuses of commands behind its end") {
  if (!haveQemu())
    TB_SKIP("there is no qemu-system-x86_64");
  RunResult result = runTapeback({"replay", tape(), "--target", "qemu:nvme?pattern=index&medium=64K"});
  CHECK_MESSAGE(result.exited(1), result);
  size_t first = result.out.find("first divergence: "), identify = result.out.find(" IDENTIFY cid=");
  REQUIRE(first != std::string::npos);
  CHECK(identify < result.out.find('\n', first));
  // The status is in the last two bytes of 16; success was recorded.
  CHECK_MESSAGE(result.out.find("(command-done memory at 0x") != std::string::npos, result);
  CHECK_MESSAGE(result.out.find(", byte 15: recorded 0x0, replayed 0x") != std::string::npos, result);
}
