#include "tests/replayer/MemoryTape.h"
#include "format/Failure.h"
#include "format/TapeWriter.h"
#include "tests/replayer/OrThrow.h"
#include "llvm/Support/xxhash.h"

namespace tapeback::test {

BlobId MemoryTape::store(llvm::ArrayRef<uint8_t> content) {
  llvm::XXH128_hash_t hash = llvm::xxh3_128bits(content);
  blobs[{hash.high64, hash.low64}] = content.vec();
  return {hash.high64, hash.low64};
}

BlobId MemoryTape::storeText(llvm::StringRef text) {
  return store(llvm::ArrayRef<uint8_t>(text.bytes_begin(), text.size()));
}

uint64_t MemoryTape::add(const Packet &packet, const PacketExtra &extra) {
  packets.push_back(packet);
  extras.push_back(extra);
  return packets.size() - 1;
}

void MemoryTape::endWindow(bool quiescent) {
  WindowInfo info;
  info.firstPacket = windows.empty() ? 0 : windows.back().firstPacket + windows.back().packetCount;
  info.packetCount = packets.size() - info.firstPacket;
  info.quiescent = quiescent;
  if (info.packetCount)
    windows.push_back(info);
}

const TapeSummary &MemoryTape::summary() const {
  theSummary.packets = packets.size();
  theSummary.windows = windows.size();
  theSummary.blobs = blobs.size();
  theSummary.keyframes = keyframes.size();
  return theSummary;
}

llvm::Expected<WindowInfo> MemoryTape::window(uint64_t n) {
  if (n >= windows.size())
    return failUsage("no-such-window", "there is no window " + std::to_string(n));
  return windows[n];
}

llvm::Expected<uint64_t> MemoryTape::windowOfPacket(uint64_t packet) {
  for (size_t i = windows.size(); i-- > 0;)
    if (packet >= windows[i].firstPacket && packet - windows[i].firstPacket < windows[i].packetCount)
      return i;
  return failUsage("no-such-packet", "packet " + std::to_string(packet) + " lies in no window");
}

llvm::Error MemoryTape::readPackets(uint64_t first, uint64_t count, PacketBatch &batch) {
  batch.clear();
  batch.firstOrdinal = first;
  if (first > packets.size() || count > packets.size() - first)
    return failUsage("no-such-packet", "there is no packet " + std::to_string(first + count));
  for (uint64_t i = first; i < first + count; ++i)
    batch.append(packets[i], extras[i]);
  return llvm::Error::success();
}

llvm::Error MemoryTape::readWindow(uint64_t n, PacketBatch &batch) {
  llvm::Expected<WindowInfo> info = window(n);
  if (!info)
    return info.takeError();
  return readPackets(info->firstPacket, info->packetCount, batch);
}

llvm::Error MemoryTape::readBlockFrom(uint64_t first, PacketBatch &batch) {
  batch.clear();
  batch.firstOrdinal = first;
  if (first >= packets.size())
    return llvm::Error::success();
  uint64_t end = std::min<uint64_t>(packets.size(), (first / blockPackets + 1) * blockPackets);
  return readPackets(first, end - first, batch);
}

llvm::Expected<llvm::ArrayRef<uint8_t>> MemoryTape::blob(BlobId id) {
  auto found = blobs.find({id.hi, id.lo});
  if (found == blobs.end())
    return failTape("no-such-blob", "a content is not on the tape");
  return llvm::ArrayRef<uint8_t>(found->second);
}

llvm::Expected<Keyframe> MemoryTape::keyframe(uint64_t n) {
  if (n >= keyframes.size())
    return failUsage("no-such-keyframe", "there is no keyframe " + std::to_string(n));
  return keyframes[n];
}

void writeTape(const MemoryTape &tape, const std::string &path) {
  std::unique_ptr<TapeWriter> writer = orThrow(TapeWriter::create(path, tape.theManifest));
  for (const DeviceRecord &device : tape.theDevices)
    orThrow(writer->addDevice(device));
  for (size_t i = 1; i < tape.theSpaces.size(); ++i)
    orThrow(writer->addSpace(tape.theSpaces[i]));
  for (const auto &[id, content] : tape.blobs)
    orThrow(writer->blob(content));
  size_t window = 0, keyframe = 0;
  for (size_t i = 0; i < tape.packets.size(); ++i) {
    while (keyframe < tape.keyframes.size() && tape.keyframes[keyframe].packet == i)
      orThrow(writer->keyframe(tape.keyframes[keyframe++]));
    orThrow(writer->append(tape.packets[i], tape.extras[i]));
    if (window < tape.windows.size() &&
        i + 1 == tape.windows[window].firstPacket + tape.windows[window].packetCount)
      orThrow(writer->endWindow(tape.windows[window++].quiescent));
  }
  orThrow(writer->finish(tape.theOutcome));
}

} // namespace tapeback::test
