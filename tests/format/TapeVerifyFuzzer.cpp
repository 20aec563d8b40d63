// Fuzzes reader and verifier with tapes whose checks hold. If a tape verifies, then everything on it must be
// readable.
#include "format/TapeReader.h"
#include "tests/format/FuzzSeal.h"

#include <algorithm>
#include <cstdlib>

using namespace tapeback;

static bool holds(llvm::Error error) {
  const bool good = !error;
  llvm::consumeError(std::move(error));
  return good;
}

static void require(bool condition, bool verified) {
  if (verified && !condition)
    std::abort();
}

static void readAll(TapeReader &reader, bool verified) {
  PacketBatch batch;
  uint64_t packets = 0;
  while (true) {
    const bool good = holds(reader.readBlockFrom(packets, batch));
    require(good, verified);
    if (!good || batch.packets.empty())
      break;
    for (const Packet &packet : batch.packets) {
      if (packet.device >= std::max<size_t>(reader.devices().size(), 1) ||
          packet.space >= reader.spaces().size() || packet.clock >= reader.clocks().size() ||
          packet.extra > batch.extras.size())
        std::abort();
      const BlobId payload = batch.extra(packet).payload;
      if (payload)
        require(holds(reader.blob(payload).takeError()), verified);
    }
    packets += batch.packets.size();
  }
  require(packets == reader.summary().packets, verified);
  const uint64_t windows = std::min<uint64_t>(reader.summary().windows, 2000);
  for (uint64_t n = 0; n < windows; ++n)
    require(holds(reader.readWindow(n, batch)) && !batch.packets.empty(), verified);
  if (reader.summary().packets != 0)
    require(holds(reader.windowOfPacket(reader.summary().packets - 1).takeError()), verified);
  for (uint64_t n = 0; n < std::min<uint64_t>(reader.keyframeCount(), 100); ++n)
    require(holds(reader.keyframe(n).takeError()), verified);
  require(holds(reader.triggers().takeError()), verified);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static fuzz::MemoryFile file;
  if (!file.set(fuzz::seal(data, size)))
    return 0;
  const bool verified = holds(verifyTape(file.path()).takeError());
  llvm::Expected<std::unique_ptr<TapeReader>> reader = TapeReader::open(file.path());
  require(static_cast<bool>(reader), verified);
  if (reader)
    readAll(**reader, verified);
  else
    llvm::consumeError(reader.takeError());
  return 0;
}
