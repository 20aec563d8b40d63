#include "hal/IovaSpace.h"
#include "format/Failure.h"
#include "format/MessageText.h"
#include "llvm/Support/MathExtras.h"

namespace tapeback {

bool IovaSpace::iovaFree(uint64_t iova, uint64_t size) const {
  if (iova >= endIova || endIova - iova < size)
    return false;
  auto next = byIova.lower_bound(iova);
  if (next != byIova.end() && next->first - iova < size)
    return false;
  if (next == byIova.begin())
    return true;
  const Region &before = std::prev(next)->second;
  return iova - before.iova >= before.size;
}

std::optional<uint64_t> IovaSpace::findIova(uint64_t size, uint64_t alignment) const {
  uint64_t candidate = llvm::alignTo(firstIova, alignment);
  for (auto it = byIova.begin(); it != byIova.end(); ++it) {
    const Region &region = it->second;
    if (region.iova + region.size <= candidate)
      continue;
    if (region.iova > candidate && region.iova - candidate >= size)
      break;
    candidate = llvm::alignTo(region.iova + region.size, alignment);
  }
  if (!iovaFree(candidate, size))
    return std::nullopt;
  return candidate;
}

std::optional<uint64_t> IovaSpace::findOffset(uint64_t size) const {
  uint64_t candidate = 0;
  for (auto [offset, used] : byOffset) {
    if (offset - candidate >= size)
      break;
    candidate = offset + used;
  }
  if (candidate > storeSize || storeSize - candidate < size)
    return std::nullopt;
  return candidate;
}

llvm::Expected<IovaSpace::Region> IovaSpace::map(const MapRequest &request) {
  if (request.size == 0)
    return failUsage("bad-map-request", "memory of no size was asked for");
  if (!llvm::isPowerOf2_64(request.alignment) || request.alignment > endIova)
    return failUsage("bad-map-request",
                     "alignment " + hexText(request.alignment) + " is not a power of two in reach");
  if (request.size > storeSize)
    return failUsage("no-device-memory", hexText(request.size) + " bytes are more than the target has", {},
                     "it has " + hexText(storeSize) + " bytes");
  if (byIova.size() == maxRegions)
    return failUsage("no-device-memory",
                     "there are " + std::to_string(maxRegions) + " memory regions already");
  Region region;
  region.size = llvm::alignTo(request.size, pageSize);
  uint64_t alignment = std::max(request.alignment, pageSize);
  if (request.iova) {
    if (*request.iova % pageSize)
      return failUsage("iova-unavailable",
                       "device address " + hexText(*request.iova) + " is not on a 4 KiB boundary");
    if (!iovaFree(*request.iova, region.size))
      return failUsage("iova-unavailable", hexText(region.size) + " bytes at device address " +
                                               hexText(*request.iova) + " are not free");
    region.iova = *request.iova;
  } else {
    std::optional<uint64_t> iova = findIova(region.size, alignment);
    if (!iova)
      return failUsage("no-device-memory",
                       "no device addresses are left for " + hexText(region.size) + " bytes");
    region.iova = *iova;
  }
  std::optional<uint64_t> offset = findOffset(region.size);
  if (!offset)
    return failUsage("no-device-memory", "no device memory is left for " + hexText(region.size) + " bytes",
                     {}, "unmap some, or give the target more (it has " + hexText(storeSize) + " bytes)");
  region.offset = *offset;
  byIova.emplace(region.iova, region);
  byOffset.emplace(region.offset, region.size);
  return region;
}

llvm::Expected<IovaSpace::Region> IovaSpace::unmap(uint64_t iova) {
  auto it = byIova.find(iova);
  if (it == byIova.end())
    return failUsage("unmapped-memory", "no memory is mapped that starts at device address " + hexText(iova));
  Region region = it->second;
  byOffset.erase(region.offset);
  byIova.erase(it);
  return region;
}

bool IovaSpace::place(const Region &region) {
  if (region.size == 0 || region.iova % pageSize || region.size % pageSize || region.offset % pageSize)
    return false;
  if (!iovaFree(region.iova, region.size) || region.offset > storeSize ||
      storeSize - region.offset < region.size)
    return false;
  auto next = byOffset.lower_bound(region.offset);
  if (next != byOffset.end() && next->first - region.offset < region.size)
    return false;
  if (next != byOffset.begin() && region.offset - std::prev(next)->first < std::prev(next)->second)
    return false;
  byIova.emplace(region.iova, region);
  byOffset.emplace(region.offset, region.size);
  return true;
}

std::optional<uint64_t> IovaSpace::offsetOf(uint64_t iova, uint64_t size) const {
  auto next = byIova.upper_bound(iova);
  if (next == byIova.begin())
    return std::nullopt;
  const Region &region = std::prev(next)->second;
  uint64_t into = iova - region.iova;
  if (into >= region.size || region.size - into < size)
    return std::nullopt;
  return region.offset + into;
}

llvm::Expected<uint64_t> IovaSpace::requireOffset(uint64_t iova, uint64_t size) const {
  if (std::optional<uint64_t> offset = offsetOf(iova, size))
    return *offset;
  return failUsage("unmapped-memory", hexText(size) + " bytes at device address " + hexText(iova) +
                                          " are not in one mapped region");
}

std::vector<IovaSpace::Region> IovaSpace::regions() const {
  std::vector<Region> all;
  all.reserve(byIova.size());
  for (const auto &[iova, region] : byIova)
    all.push_back(region);
  return all;
}

} // namespace tapeback
