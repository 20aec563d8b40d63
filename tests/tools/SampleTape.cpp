#include "tests/tools/SampleTape.h"
#include "format/Failure.h"
#include "format/TapeWriter.h"
#include "hal/minnow/driver/Commands.h"
#include "tests/support/RunProgram.h"
#include <stdexcept>
#include <vector>

using namespace llvm;

namespace tapeback::test {
namespace {

void must(Error error) {
  if (error)
    throw std::runtime_error("sample tape: " + toFailure(std::move(error)).message);
}
template <typename T>
T must(Expected<T> value) {
  if (!value)
    must(value.takeError());
  return std::move(*value);
}

class SampleWriter {
public:
  SampleWriter(const std::string &path, const SampleOptions &options) : options(options) {
    Manifest manifest;
    manifest.facts = {{"workload", "sample"}, {"tool-version", "test"}, {"owner", "line\nbreak \x1b[31m"}};
    writer = must(TapeWriter::create(path, manifest));
    DeviceRecord device;
    device.alias = "edu";
    device.targetUri = "model:edu";
    device.identity = {{"vendor", "0x1234"}};
    if (options.description) {
      device.descriptionName = options.commands ? "minnow" : "edu";
      device.description = readWholeFile(TAPEBACK_SOURCE_DIR "/hal/" + device.descriptionName + "/" +
                                         device.descriptionName + ".yaml");
    }
    must(writer->addDevice(device));
    bar0 = must(writer->addSpace("bar0"));
  }

  TapeSummary write() {
    add(PacketKind::Open, 0, 0, 0, {}, "edu");
    PacketExtra map;
    map.length = 4096;
    add(PacketKind::MemoryMap, 0x1000, 0, 0, map);
    for (unsigned i = 0; i < options.operations; ++i)
      operation(i);
    if (options.loss)
      add(PacketKind::Loss, uint64_t(LossCause::RingFull), 12, 0);
    if (options.unknownKind)
      add(PacketKind(200), 0x123, 0x456, 4);
    if (options.commands)
      commands();
    pendingRead();
    add(PacketKind::Close, 0, 0, 0);
    Outcome outcome;
    outcome.kind = options.failing ? Outcome::Kind::Failed : Outcome::Kind::Passed;
    outcome.programExit = options.failing ? 1 : 0;
    if (options.failing) {
      outcome.packet = samplePacket(options.operations - 1, 8);
      outcome.signature = Signature{"check", "liveness", "", "", {}, 0x1, "op", options.operations, 1};
    }
    return must(writer->finish(outcome));
  }

private:
  void add(PacketKind kind, uint64_t address, uint64_t value, uint8_t width, PacketExtra extra = {},
           StringRef name = {}, uint8_t flags = 0) {
    Packet packet;
    packet.kind = kind;
    packet.issueTime = clock += 1000;
    packet.completeTime = clock += 500;
    packet.address = address;
    packet.value = value;
    packet.width = width;
    packet.space =
        kind == PacketKind::RegisterRead || kind == PacketKind::RegisterWrite || kind == PacketKind::Poll
            ? bar0
            : 0;
    packet.flags = flags;
    if (!name.empty())
      extra.payload =
          must(writer->blob(ArrayRef(reinterpret_cast<const uint8_t *>(name.data()), name.size())));
    must(writer->append(packet, extra));
  }

  void operation(unsigned i) {
    must(writer->endWindow(true));
    add(PacketKind::Marker, 0, 0, 0, {}, "op");
    add(PacketKind::RegisterWrite, 0x04, 0x1234 + i, 4);
    add(PacketKind::RegisterRead, 0x20, 0x81, 4);
    PacketExtra condition;
    condition.mask = 1;
    condition.deadline = 1000000000;
    condition.count = 3;
    add(PacketKind::Poll, 0x98, 0, 8, condition);
    std::vector<uint8_t> content(40, uint8_t(0xa0 + i));
    PacketExtra memory;
    memory.length = content.size();
    memory.payload = must(writer->blob(content));
    add(PacketKind::MemoryWrite, 0x1000, 0, 0, memory);
    PacketExtra descriptor = memory;
    descriptor.link = 0;
    add(PacketKind::DmaDescriptor, 0x1000, 0x40000, 0, descriptor, {}, TransferToDevice);
    PacketExtra completion;
    completion.length = content.size();
    completion.link = samplePacket(i, 5);
    add(PacketKind::DmaCompletion, 0x1000, 0x40000, 0, completion);
    PacketExtra wait;
    wait.deadline = 5000000;
    wait.count = 1;
    add(PacketKind::Interrupt, 0, 0, 0, wait);
    PacketExtra check;
    check.expected = 0x81;
    check.mask = ~uint64_t(0);
    check.link = samplePacket(i, 2);
    bool fails = options.failing && i + 1 == options.operations;
    add(PacketKind::Oracle, 0, fails ? 0x80 : 0x81, 0, check, "liveness", fails ? Failed : 0);
  }

  void submit(uint64_t queue, uint64_t before, const minnow_command &command) {
    PacketExtra extra;
    extra.length = sizeof command;
    extra.count = before;
    extra.payload = must(writer->blob(ArrayRef(reinterpret_cast<const uint8_t *>(&command), sizeof command)));
    add(PacketKind::Submit, 0x8000 + 64 * before, queue, 0, extra);
  }

  void commands() {
    must(writer->endWindow(true));
    add(PacketKind::Marker, 0, 0, 0, {}, "commands");
    submit(0, 0, minnow_dma(MINNOW_DMA_LOAD, 0x1000, 0x40, 8, 2, 32, 8));
    PacketExtra rows;
    rows.length = 16;
    rows.count = 2;
    rows.expected = 32;
    rows.payload = must(writer->blob(std::vector<uint8_t>(16, 0x5a)));
    add(PacketKind::MemoryWrite, 0x1000, 0, 0, rows);
    add(PacketKind::DmaDescriptor, 0x1000, 0x40, 0, rows, {}, TransferToDevice);
    submit(0, 1, minnow_gemm(0x40, 0x80, 0xc0, 8, 16, 24, 24, 16, 64, MINNOW_ACCUMULATE));
    submit(0, 2, minnow_fence(0x2000, 7, MINNOW_INTERRUPT));
    submit(1, 0, minnow_make(0x7f, 0));
    PacketExtra completion = rows;
    completion.payload = {};
    completion.link = sampleCommands(options) + 3;
    add(PacketKind::DmaCompletion, 0x1000, 0, 0, completion);
    add(PacketKind::DmaCompletion, 0x1000, 1, 0, completion);
  }

  void pendingRead() {
    Packet packet;
    packet.kind = PacketKind::RegisterRead;
    packet.issueTime = clock += 1000;
    packet.address = 0x08;
    packet.width = 4;
    packet.space = bar0;
    packet.thread = 1;
    packet.completion = Completion::Pending;
    must(writer->append(packet));
  }

  SampleOptions options;
  std::unique_ptr<TapeWriter> writer;
  uint16_t bar0 = 0;
  uint64_t clock = 1000000;
};

} // namespace

TapeSummary writeSampleTape(const std::string &path, const SampleOptions &options) {
  return SampleWriter(path, options).write();
}

} // namespace tapeback::test
