#include "replayer/TapeSource.h"
#include "format/Failure.h"

namespace tapeback {

llvm::Expected<std::unique_ptr<TapeSource>> TapeSource::open(llvm::StringRef path,
                                                             llvm::ArrayRef<std::string> descriptions) {
  llvm::Expected<std::unique_ptr<TapeReader>> reader = TapeReader::open(path);
  if (!reader)
    return reader.takeError();
  return create(std::move(*reader), descriptions);
}

llvm::Expected<std::unique_ptr<TapeSource>> TapeSource::create(std::unique_ptr<TapeReader> reader,
                                                               llvm::ArrayRef<std::string> replacements) {
  std::unique_ptr<TapeSource> source(new TapeSource);
  source->tape = std::move(reader);
  llvm::ArrayRef<DeviceRecord> devices = source->tape->devices();
  for (size_t i = 0; i < devices.size(); ++i) {
    bool replaced = i < replacements.size() && !replacements[i].empty();
    const std::string &text = replaced ? replacements[i] : devices[i].description;
    source->descriptions.emplace_back();
    if (text.empty())
      continue;
    std::string name = devices[i].descriptionName.empty() ? "description" : devices[i].descriptionName;
    llvm::Expected<Description> parsed = parseDescription(text, name);
    if (!parsed) {
      if (replaced)
        return parsed.takeError();
      // The user cannot mend what the tape carries: it is the tape that is bad.
      Failure failure = toFailure(parsed.takeError());
      return failTape("bad-description",
                      "the description of device " + std::to_string(i) +
                          " on the tape does not hold: " + failure.message,
                      failure.where, "give another one with --description");
    }
    source->descriptions.back().emplace(std::move(*parsed));
  }
  return source;
}

const Description *TapeSource::description(uint16_t device) const {
  if (device >= descriptions.size() || !descriptions[device])
    return nullptr;
  return &*descriptions[device];
}

std::string TapeSource::spaceName(uint16_t space) const {
  llvm::ArrayRef<std::string> names = tape->spaces();
  return space < names.size() ? names[space] : "space-" + std::to_string(space);
}

std::vector<std::string> TapeSource::spaceNames() const {
  llvm::ArrayRef<std::string> names = tape->spaces();
  return {names.begin(), names.end()};
}

llvm::Error TapeSource::packetAt(uint64_t ordinal, Packet &packet, PacketExtra &extra) {
  if (ordinal >= tape->summary().packets)
    return failTape("bad-link", "there is no packet " + std::to_string(ordinal) + " on this tape");
  if (llvm::Error error = tape->readPackets(ordinal, 1, scratch))
    return error;
  if (scratch.packets.size() != 1)
    return failTape("short-read", "packet " + std::to_string(ordinal) + " cannot be read");
  packet = scratch.packets[0];
  extra = scratch.extra(packet);
  return llvm::Error::success();
}

llvm::Error
TapeSource::eachBlock(std::optional<uint64_t> endPacket,
                      llvm::function_ref<llvm::Expected<bool>(const PacketBatch &batch, size_t count)> each) {
  uint64_t end = std::min(tape->summary().packets, endPacket.value_or(~uint64_t(0)));
  PacketBatch batch;
  for (uint64_t position = 0; position < end; position += batch.packets.size()) {
    if (llvm::Error error = tape->readBlockFrom(position, batch))
      return error;
    if (batch.packets.empty())
      return failTape("short-tape", "the tape ends before its last packet",
                      "packet " + std::to_string(position));
    llvm::Expected<bool> more = each(batch, size_t(std::min<uint64_t>(batch.packets.size(), end - position)));
    if (!more)
      return more.takeError();
    if (!*more)
      break;
  }
  return llvm::Error::success();
}

llvm::Expected<std::string> TapeSource::name(BlobId id) {
  if (!id)
    return std::string();
  llvm::Expected<llvm::ArrayRef<uint8_t>> content = tape->blob(id);
  if (!content)
    return content.takeError();
  size_t size = std::min<size_t>(content->size(), 255);
  return std::string(reinterpret_cast<const char *>(content->data()), size);
}

llvm::Error WindowCursor::moveTo(uint64_t packet) {
  if (contains(packet))
    return llvm::Error::success();
  uint64_t total = reader.summary().windows;
  // Usually the next window; otherwise ask the index.
  uint64_t next = valid ? number + 1 : 0;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (next < total) {
      llvm::Expected<WindowInfo> info = reader.window(next);
      if (!info)
        return info.takeError();
      if (packet >= info->firstPacket && packet - info->firstPacket < info->packetCount) {
        present = *info;
        number = next;
        valid = true;
        return llvm::Error::success();
      }
    }
    llvm::Expected<uint64_t> found = reader.windowOfPacket(packet);
    if (!found)
      return found.takeError();
    next = *found;
  }
  return failTape("bad-index", "no window of the tape contains packet " + std::to_string(packet));
}

} // namespace tapeback
