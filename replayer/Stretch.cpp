#include "replayer/Stretch.h"
#include "format/Failure.h"
#include <algorithm>
#include <sys/mman.h>

namespace tapeback {

Stretch::~Stretch() {
  unpin();
}

llvm::Error Stretch::read(TapeReader &reader, uint64_t first, uint64_t end, const StretchLimits &limits) {
  unpin();
  places.clear();
  arena.clear();
  uint64_t count = std::min(end - first, std::max<uint64_t>(1, limits.packets));
  if (llvm::Error error = reader.readPackets(first, count, packets))
    return error;
  if (packets.packets.empty() || packets.firstOrdinal != first)
    return failTape("short-tape", "the tape ends before its last packet", "packet " + std::to_string(first));
  for (size_t i = 0; i < packets.packets.size(); ++i) {
    BlobId id = packets.extra(packets.packets[i]).payload;
    if (!id || places.count(id))
      continue;
    llvm::Expected<llvm::ArrayRef<uint8_t>> content = reader.blob(id);
    if (!content) {
      llvm::consumeError(content.takeError()); // Whoever needs it asks again, and is told.
      continue;
    }
    if (content->size() > limits.contentBytes)
      continue;
    if (content->size() > limits.contentBytes - arena.size()) {
      packets.packets.resize(i); // i > 0: the arena has something.
      break;
    }
    places.emplace(id, Place{arena.size(), content->size()});
    arena.insert(arena.end(), content->begin(), content->end());
  }
  if (limits.pin)
    pin();
  return llvm::Error::success();
}

std::optional<llvm::ArrayRef<uint8_t>> Stretch::find(BlobId id) const {
  auto found = places.find(id);
  if (found == places.end())
    return std::nullopt;
  return llvm::ArrayRef<uint8_t>(arena).slice(found->second.offset, found->second.size);
}

void Stretch::pin() {
  isPinned = true;
  auto lock = [&](const void *start, size_t bytes) {
    if (!bytes)
      return;
    if (::mlock(start, bytes) == 0)
      locked.emplace_back(start, bytes);
    else
      isPinned = false;
  };
  lock(packets.packets.data(), packets.packets.size() * sizeof(Packet));
  lock(packets.extras.data(), packets.extras.size() * sizeof(PacketExtra));
  lock(arena.data(), arena.size());
}

void Stretch::unpin() {
  for (const auto &[start, bytes] : locked)
    ::munlock(start, bytes);
  locked.clear();
  isPinned = false;
}

} // namespace tapeback
