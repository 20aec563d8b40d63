#include "replayer/LiveMemory.h"
#include "llvm/ADT/STLExtras.h"

namespace tapeback {

void LiveMemory::learn(uint64_t address, unsigned width, uint64_t mask, uint64_t recorded, uint64_t live) {
  auto place = places.find(address);
  if (place == places.end()) {
    if (recorded == live || places.size() >= mostPlaces)
      return;
    place = places.emplace(address, Place{width, {}}).first;
  }
  // A value that is the same in both runs counts as well: what stood there before is no longer meant.
  std::vector<Value> &values = place->second.values;
  place->second.width = width;
  if (values.size() >= mostValues)
    values.erase(values.begin());
  values.push_back({mask, recorded, live});
}

std::map<uint64_t, LiveMemory::Place>::const_iterator LiveMemory::firstAt(uint64_t address) const {
  // A place has 8 bytes at most, and may begin before the range.
  auto at = places.lower_bound(address > 7 ? address - 7 : 0);
  while (at != places.end() && at->first < address && address - at->first >= at->second.width)
    ++at;
  return at;
}

void LiveMemory::overwritten(uint64_t address, uint64_t size) {
  if (places.empty())
    return;
  for (auto at = firstAt(address);
       at != places.end() && (at->first <= address || at->first - address < size);)
    at = places.erase(at);
}

bool LiveMemory::any(uint64_t address, uint64_t size) const {
  if (places.empty())
    return false;
  for (auto at = firstAt(address); at != places.end() && (at->first <= address || at->first - address < size);
       ++at)
    if (llvm::any_of(at->second.values, [](const Value &value) { return value.recorded != value.live; }))
      return true;
  return false;
}

void LiveMemory::revert(uint64_t address, llvm::MutableArrayRef<uint8_t> content) const {
  if (places.empty())
    return;
  auto byteOf = [](uint64_t value, unsigned index) { return uint8_t(value >> (8 * index)); };
  for (auto at = firstAt(address);
       at != places.end() && (at->first <= address || at->first - address < content.size()); ++at) {
    auto eachByte = [&](auto act) { // Of the place, those that are in the content.
      for (unsigned i = 0; i < at->second.width; ++i)
        if (uint64_t byte = at->first + i; byte >= address && byte - address < content.size())
          act(content[byte - address], i);
    };
    uint64_t done = 0;
    for (const Value &value : llvm::reverse(at->second.values)) {
      bool is = (value.mask & done) == 0;
      eachByte([&](uint8_t &byte, unsigned i) {
        is &= ((byte ^ byteOf(value.live, i)) & byteOf(value.mask, i)) == 0;
      });
      if (!is)
        continue;
      done |= value.mask;
      eachByte([&](uint8_t &byte, unsigned i) {
        byte = uint8_t((byte & ~byteOf(value.mask, i)) | (byteOf(value.recorded, i) & byteOf(value.mask, i)));
      });
    }
  }
}

} // namespace tapeback
