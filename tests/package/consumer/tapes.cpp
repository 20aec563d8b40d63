// A tool that writes a tape and reads it again with the installed library.
#include "format/TapeReader.h"
#include "format/TapeWriter.h"
#include "llvm/Support/raw_ostream.h"

using namespace tapeback;

static llvm::Error writeTape(llvm::StringRef path) {
  Manifest manifest;
  manifest.facts["workload"] = "consumer";
  auto writer = TapeWriter::create(path, manifest);
  if (!writer)
    return writer.takeError();
  auto device = (*writer)->addDevice({"d", "null:", {}, "", ""});
  if (!device)
    return device.takeError();
  auto space = (*writer)->addSpace("bar0");
  if (!space)
    return space.takeError();
  for (uint64_t i = 0; i < 1000; ++i) {
    Packet packet;
    packet.kind = PacketKind::RegisterWrite;
    packet.device = *device;
    packet.space = *space;
    packet.width = 4;
    packet.address = 8;
    packet.value = i;
    packet.issueTime = i * 10;
    packet.completeTime = i * 10 + 5;
    if (auto error = (*writer)->append(packet))
      return error;
  }
  return (*writer)->finish({}).takeError();
}

static llvm::Error readTape(llvm::StringRef path, uint64_t &sum) {
  auto reader = TapeReader::open(path);
  if (!reader)
    return reader.takeError();
  PacketBatch batch;
  for (uint64_t next = 0;; next += batch.packets.size()) {
    if (auto error = (*reader)->readBlockFrom(next, batch))
      return error;
    if (batch.packets.empty())
      return llvm::Error::success();
    for (const Packet &packet : batch.packets)
      sum += packet.value;
  }
}

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  uint64_t sum = 0;
  llvm::Error error = writeTape(argv[1]);
  if (!error)
    error = readTape(argv[1], sum);
  if (error) {
    llvm::errs() << llvm::toString(std::move(error)) << "\n";
    return 1;
  }
  llvm::outs() << sum << "\n";
  return 0;
}
