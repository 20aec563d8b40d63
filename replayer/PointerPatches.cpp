#include "replayer/PointerPatches.h"
#include "format/Failure.h"
#include "replayer/AccessRules.h"

namespace tapeback {

static uint8_t byteOf(uint64_t value, uint64_t index) {
  return uint8_t(value >> (8 * index));
}

llvm::Error PointerPatches::learn(const AddressMap &map, uint64_t address, const EntryForm &form,
                                  llvm::ArrayRef<uint8_t> entry) {
  for (const EntryField &field : form.fields) {
    if (!field.address)
      continue;
    uint64_t recorded = entryValue(field, entry), placed = map.toPlaced(recorded);
    uint64_t at = address + field.offset;
    if (placed == recorded) {
      pointers.erase(at);
      continue;
    }
    if (llvm::Error error = map.check(recorded))
      return error;
    if (placed & ~widthMask(field.width))
      return failUsage("relocation-width", form.name + "'s field " + field.name + " has " +
                                               std::to_string(field.width) +
                                               " bytes, too few for the memory's new address");
    if (pointers.size() >= mostPointers && !pointers.count(at))
      return failUsage("relocation-limit",
                       "more than " + std::to_string(mostPointers) + " places in memory hold addresses");
    Pointer &pointer = pointers[at];
    patched += pointer.placed != placed || pointer.recorded != recorded;
    pointer = {field.width, recorded, placed};
  }
  return llvm::Error::success();
}

std::map<uint64_t, PointerPatches::Pointer>::const_iterator PointerPatches::firstAt(uint64_t address) const {
  // A pointer has 8 bytes at most, and may begin before the range.
  auto at = pointers.lower_bound(address > 7 ? address - 7 : 0);
  while (at != pointers.end() && at->first + at->second.width <= address)
    ++at;
  return at;
}

bool PointerPatches::any(uint64_t address, uint64_t size) const {
  auto at = firstAt(address);
  return at != pointers.end() && (at->first <= address || at->first - address < size);
}

void PointerPatches::apply(uint64_t address, llvm::MutableArrayRef<uint8_t> content,
                           std::vector<Rest> &rest) {
  uint64_t end = address + content.size();
  for (auto at = firstAt(address); at != pointers.end() && at->first < end;) {
    const Pointer &pointer = at->second;
    bool same = true, whole = at->first >= address && at->first + pointer.width <= end;
    for (unsigned i = 0; i < pointer.width; ++i)
      if (uint64_t place = at->first + i; place >= address && place < end)
        same &= content[place - address] == byteOf(pointer.recorded, i);
    if (!same) {
      if (!whole)
        rest.push_back({at->first, pointer.width, pointer.recorded});
      at = pointers.erase(at);
      continue;
    }
    for (unsigned i = 0; i < pointer.width; ++i)
      if (uint64_t place = at->first + i; place >= address && place < end)
        content[place - address] = byteOf(pointer.placed, i);
    ++at;
  }
}

void PointerPatches::revert(uint64_t address, llvm::MutableArrayRef<uint8_t> content) const {
  uint64_t end = address + content.size();
  for (auto at = firstAt(address); at != pointers.end() && at->first < end; ++at) {
    const Pointer &pointer = at->second;
    bool same = true;
    for (unsigned i = 0; i < pointer.width; ++i)
      if (uint64_t place = at->first + i; place >= address && place < end)
        same &= content[place - address] == byteOf(pointer.placed, i);
    for (unsigned i = 0; i < pointer.width && same; ++i)
      if (uint64_t place = at->first + i; place >= address && place < end)
        content[place - address] = byteOf(pointer.recorded, i);
  }
}

void PointerPatches::forget(uint64_t address, uint64_t size) {
  auto at = pointers.lower_bound(address);
  while (at != pointers.end() && at->first - address < size)
    at = pointers.erase(at);
}

} // namespace tapeback
