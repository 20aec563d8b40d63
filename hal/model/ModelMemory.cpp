#include "hal/model/ModelMemory.h"
#include "format/Failure.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <unistd.h>

namespace tapeback {
namespace {

constexpr uint64_t endIova = uint64_t(1) << 52;

llvm::Error mappingFailure(const char *what) {
  return failSystem("no-device-memory", std::string(what) + ": " + std::strerror(errno),
                    "device-visible memory");
}

} // namespace

ModelMemory::ModelMemory(uint64_t size) : total(size), iovas(firstDeviceAddress, endIova, size) {}

ModelMemory::~ModelMemory() {
  if (base)
    ::munmap(base, total);
  if (fd >= 0)
    ::close(fd);
}

llvm::Error ModelMemory::open() {
  fd = ::memfd_create("tapeback-device-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0)
    return mappingFailure("memfd_create");
  if (::ftruncate(fd, off_t(total)) != 0)
    return mappingFailure("ftruncate");
  if (::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return mappingFailure("sealing");
  void *mapping = ::mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (mapping == MAP_FAILED)
    return mappingFailure("mmap");
  base = static_cast<uint8_t *>(mapping);
  return llvm::Error::success();
}

llvm::Error ModelMemory::zero(const IovaSpace::Region &region) {
  if (region.size == 0)
    return llvm::Error::success();
  if (::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(region.offset), off_t(region.size)) !=
      0)
    return mappingFailure("fallocate");
  return llvm::Error::success();
}

llvm::Expected<IovaSpace::Region> ModelMemory::map(const MapRequest &request) {
  llvm::Expected<IovaSpace::Region> region = iovas.map(request);
  if (!region)
    return region.takeError();
  // Not only when unmapping: a plugin may have written to what it had no business with.
  if (llvm::Error error = zero(*region))
    return llvm::joinErrors(std::move(error), iovas.unmap(region->iova).takeError());
  return *region;
}

llvm::Expected<IovaSpace::Region> ModelMemory::unmap(uint64_t iova) {
  llvm::Expected<IovaSpace::Region> region = iovas.unmap(iova);
  if (!region)
    return region.takeError();
  if (llvm::Error error = zero(*region)) // Gives the pages back.
    return error;
  return *region;
}

template <typename Move>
llvm::Error ModelMemory::forPieces(uint64_t iova, uint64_t size, Move move) const {
  if (!covers(iova, size))
    return iovas.requireOffset(iova, size).takeError();
  while (size) {
    // At most a page at a time: regions are whole pages, so a piece lies in one.
    uint64_t piece = std::min(size, IovaSpace::pageSize - iova % IovaSpace::pageSize);
    if (std::optional<uint64_t> whole = iovas.offsetOf(iova, size)) {
      move(base + *whole, size);
      return llvm::Error::success();
    }
    llvm::Expected<uint64_t> offset = iovas.requireOffset(iova, piece);
    if (!offset)
      return offset.takeError();
    move(base + *offset, piece);
    iova += piece;
    size -= piece;
  }
  return llvm::Error::success();
}

bool ModelMemory::covers(uint64_t iova, uint64_t size) const {
  if (size > total)
    return false;
  while (size && !iovas.offsetOf(iova, size)) {
    uint64_t piece = std::min(size, IovaSpace::pageSize - iova % IovaSpace::pageSize);
    if (!iovas.offsetOf(iova, piece))
      return false;
    iova += piece;
    size -= piece;
  }
  return true;
}

llvm::Error ModelMemory::read(uint64_t iova, llvm::MutableArrayRef<uint8_t> out) const {
  uint8_t *to = out.data();
  return forPieces(iova, out.size(), [&](const uint8_t *from, uint64_t size) {
    std::memcpy(to, from, size);
    to += size;
  });
}

llvm::Error ModelMemory::write(uint64_t iova, llvm::ArrayRef<uint8_t> in) {
  const uint8_t *from = in.data();
  return forPieces(iova, in.size(), [&](uint8_t *to, uint64_t size) {
    std::memcpy(to, from, size);
    from += size;
  });
}

llvm::Expected<ModelMemory::Contents> ModelMemory::save(uint64_t budget) const {
  Contents contents;
  contents.regions = iovas.regions();
  for (const IovaSpace::Region &region : contents.regions) {
    uint64_t end = region.offset + region.size;
    for (uint64_t at = region.offset; at < end;) {
      off_t data = ::lseek(fd, off_t(at), SEEK_DATA);
      if (data < 0 && errno == ENXIO)
        break; // Nothing but holes from here on.
      if (data < 0)
        return mappingFailure("lseek");
      if (uint64_t(data) >= end)
        break;
      off_t hole = ::lseek(fd, data, SEEK_HOLE);
      if (hole <= data)
        return mappingFailure("lseek");
      uint64_t last = std::min<uint64_t>(uint64_t(hole), end), size = last - uint64_t(data);
      if (budget - contents.bytes < size)
        return failUsage("snapshot-limit",
                         "the contents of device-visible memory are too big for another snapshot", {},
                         "release snapshots, or give the target more memory");
      contents.extents.push_back({uint64_t(data), std::vector<uint8_t>(base + data, base + last)});
      contents.bytes += size;
      at = last;
    }
  }
  return contents;
}

/// What is as it was is not touched: giving pages back and taking them again costs more than looking.
llvm::Error ModelMemory::load(const Contents &contents) {
  auto extent = contents.extents.begin();
  for (const IovaSpace::Region &region : contents.regions) {
    uint64_t at = region.offset, end = region.offset + region.size;
    // Extents come region by region; regions have their places in the store in any order.
    for (; extent != contents.extents.end() && extent->offset >= at && extent->offset < end; ++extent) {
      if (llvm::Error error = zero({region.iova, extent->offset - at, at}))
        return error;
      for (uint64_t done = 0; done < extent->bytes.size(); done += IovaSpace::pageSize) {
        uint64_t piece = std::min<uint64_t>(IovaSpace::pageSize, extent->bytes.size() - done);
        uint8_t *to = base + extent->offset + done;
        if (std::memcmp(to, extent->bytes.data() + done, piece) != 0)
          std::memcpy(to, extent->bytes.data() + done, piece);
      }
      at = extent->offset + extent->bytes.size();
    }
    if (llvm::Error error = zero({region.iova, end - at, at}))
      return error;
  }
  return llvm::Error::success();
}

} // namespace tapeback
