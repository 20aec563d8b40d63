#include "hal/model/host/HostMemory.h"
#include <cstdlib>
#include <sys/mman.h>
#include <sys/stat.h>

namespace tapeback::modelhost {

bool HostMemory::open(int fd, uint64_t size) {
  struct stat status;
  if (size == 0 || fstat(fd, &status) != 0 || uint64_t(status.st_size) < size)
    return false;
  void *mapping = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (mapping == MAP_FAILED)
    return false;
  base = static_cast<uint8_t *>(mapping);
  total = size;
  return true;
}

HostMemory::~HostMemory() {
  if (base)
    munmap(base, total);
  free(regions);
}

uint32_t HostMemory::firstAfter(uint64_t iova) const {
  uint32_t low = 0, high = count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (regions[middle].iova + (regions[middle].size - 1) < iova)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

bool HostMemory::map(uint64_t iova, uint64_t size, uint64_t offset) {
  if (size == 0 || iova + (size - 1) < iova || offset > total || total - offset < size || count == maxRegions)
    return false;
  uint32_t at = firstAfter(iova);
  if (at < count && regions[at].iova <= iova + (size - 1))
    return false;
  if (count == capacity) {
    uint32_t more = capacity ? capacity * 2 : 64;
    void *grown = realloc(regions, more * sizeof(Region));
    if (!grown)
      return false;
    regions = static_cast<Region *>(grown);
    capacity = more;
  }
  if (at < count) // memmove's arguments must be inside the array even for nothing.
    memmove(regions + at + 1, regions + at, (count - at) * sizeof(Region));
  regions[at] = {iova, size, offset};
  ++count;
  return true;
}

bool HostMemory::unmap(uint64_t iova) {
  uint32_t at = firstAfter(iova);
  if (at == count || regions[at].iova != iova)
    return false;
  --count;
  if (at < count)
    memmove(regions + at, regions + at + 1, (count - at) * sizeof(Region));
  return true;
}

bool HostMemory::covered(uint64_t iova, uint64_t size, uint32_t *first) const {
  if (size == 0)
    return true;
  uint64_t last = iova + (size - 1);
  if (last < iova)
    return false;
  *first = firstAfter(iova);
  for (uint32_t at = *first; at < count && regions[at].iova <= iova; ++at) {
    uint64_t end = regions[at].iova + (regions[at].size - 1);
    if (end >= last)
      return true;
    iova = end + 1;
  }
  return false;
}

bool HostMemory::read(uint64_t iova, void *out, uint64_t size) {
  uint32_t at = 0;
  if (!covered(iova, size, &at))
    return false;
  auto *to = static_cast<uint8_t *>(out);
  for (; size; ++at) {
    uint64_t into = iova - regions[at].iova, piece = regions[at].size - into;
    piece = piece < size ? piece : size;
    memcpy(to, base + regions[at].offset + into, piece);
    to += piece, iova += piece, size -= piece;
  }
  return true;
}

bool HostMemory::write(uint64_t iova, const void *in, uint64_t size) {
  uint32_t at = 0;
  if (!covered(iova, size, &at))
    return false;
  auto *from = static_cast<const uint8_t *>(in);
  for (; size; ++at) {
    uint64_t into = iova - regions[at].iova, piece = regions[at].size - into;
    piece = piece < size ? piece : size;
    memcpy(base + regions[at].offset + into, from, piece);
    from += piece, iova += piece, size -= piece;
  }
  return true;
}

} // namespace tapeback::modelhost
