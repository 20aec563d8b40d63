// For the fuzzers of tapes: makes all checks of a mutated tape hold again, so that what lies behind them is
// reached.
#pragma once

#include "format/Layout.h"
#include <algorithm>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace tapeback::fuzz {

/// Takes the bytes as a tape whose blocks begin at the sync markers, and seals it: sizes, checksums, hashes,
/// chain, tail. What the headers say of types, counts and times stays as it is. An odd first byte leaves the
/// bytes alone: the checks themselves have to be tried too.
inline std::vector<uint8_t> seal(const uint8_t *data, size_t size) {
  if (size == 0)
    return {};
  if (data[0] & 1)
    return {data + 1, data + size};
  const std::vector<uint8_t> in(data + 1, data + size);
  FileHeader file;
  std::copy_n(in.data(), std::min(in.size(), sizeof(file)), reinterpret_cast<uint8_t *>(&file));
  file.magic = fileMagic;
  file.check = checkOf(file);
  std::vector<uint8_t> out(bytesOf(file).begin(), bytesOf(file).end());
  Digest chain = chainStart(file);
  const auto *marker = reinterpret_cast<const char *>(syncMarker.data());
  auto find = [&](size_t from) -> size_t {
    const void *at =
        from < in.size() ? ::memmem(in.data() + from, in.size() - from, marker, syncMarker.size()) : nullptr;
    return at ? static_cast<size_t>(static_cast<const uint8_t *>(at) - in.data()) : in.size();
  };
  uint64_t sequence = 0, lastOffset = 0;
  for (size_t at = find(std::min(sizeof(file), in.size())); at + sizeof(BlockHeader) <= in.size();) {
    const size_t next = find(at + 1);
    BlockHeader header;
    std::memcpy(&header, in.data() + at, sizeof(header));
    // The last 64 bytes are the trailer, made again below; at the end of the file the tail too.
    size_t stored = next - std::min(next, at + sizeof(header));
    const size_t end = sizeof(BlockTrailer) + (next == in.size() ? sizeof(Tail) : 0);
    stored -= std::min(stored, end);
    header.tapeTag = tapeTagOf(file.tapeId);
    header.sequence = sequence++;
    header.storedSize = static_cast<uint32_t>(stored);
    if (header.codec == static_cast<uint8_t>(Codec::None))
      header.rawSize = header.storedSize;
    header.check = checkOf(header);
    BlockTrailer trailer;
    trailer.hash = hashBlock(header, {in.data() + at + sizeof(header), stored});
    trailer.chain = chain = chainStep(chain, trailer.hash);
    lastOffset = out.size();
    out.insert(out.end(), bytesOf(header).begin(), bytesOf(header).end());
    out.insert(out.end(), in.data() + at + sizeof(header), in.data() + at + sizeof(header) + stored);
    out.insert(out.end(), bytesOf(trailer).begin(), bytesOf(trailer).end());
    at = next;
  }
  Tail tail;
  tail.footerOffset = lastOffset;
  tail.fileBytes = out.size() + sizeof(tail);
  tail.check = checkOf(tail, file.tapeId);
  out.insert(out.end(), bytesOf(tail).begin(), bytesOf(tail).end());
  return out;
}

/// A file without a name that holds the bytes.
class MemoryFile {
public:
  MemoryFile() : fd(::memfd_create("tape", MFD_CLOEXEC)) {}
  ~MemoryFile() { ::close(fd); }
  MemoryFile(const MemoryFile &) = delete;
  bool set(const std::vector<uint8_t> &bytes) {
    return fd >= 0 && ::ftruncate(fd, 0) == 0 &&
           ::pwrite(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd); }

private:
  int fd;
};

} // namespace tapeback::fuzz
