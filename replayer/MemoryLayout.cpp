#include "replayer/MemoryLayout.h"
#include "format/Failure.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>

namespace tapeback {
namespace {

constexpr uint64_t page = 4096;
/// Nothing is put higher by choice: not every IOMMU goes further.
constexpr uint64_t highestChoice = (uint64_t(1) << 38) - 1;
/// Nor lower: targets keep what is below for themselves.
constexpr uint64_t lowestChoice = 0x1000000;
/// Below this, places for a seed are not looked for as long as there are any above.
constexpr uint64_t smallestReach = 0x4000000;

uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t pages(uint64_t size) {
  return size > ~uint64_t(0) - page ? size : (size + page - 1) / page * page;
}

} // namespace

llvm::Expected<MemoryLayout> parseMemoryLayout(llvm::StringRef text) {
  using Kind = MemoryLayout::Kind;
  auto [name, value] = text.split('=');
  bool hasValue = name.size() != text.size();
  struct Row {
    const char *name;
    Kind kind;
    bool takesValue;
  };
  static constexpr Row rows[] = {{"auto", Kind::Automatic, false},  {"never", Kind::Never, false},
                                 {"shift", Kind::Shift, true},      {"fragment", Kind::Fragment, false},
                                 {"reverse", Kind::Reverse, false}, {"seed", Kind::Seeded, true}};
  for (const Row &row : rows) {
    if (name != row.name || hasValue != row.takesValue)
      continue;
    MemoryLayout layout{row.kind};
    bool down = row.kind == Kind::Shift && value.consume_front("-");
    if (row.takesValue && value.getAsInteger(0, layout.amount))
      break;
    if (down)
      layout.amount = 0 - layout.amount;
    if (row.kind == Kind::Shift && layout.amount % page)
      return failUsage("bad-option",
                       "memory can be moved by whole pages of 4 KiB only, not by " + value.str(),
                       "--relocate " + text.str());
    return layout;
  }
  return failUsage("bad-option", "'" + text.str() + "' is no way to place memory", "--relocate",
                   "one of: auto, never, shift=BYTES, fragment, reverse, seed=N");
}

std::string memoryLayoutText(const MemoryLayout &layout) {
  switch (layout.kind) {
  case MemoryLayout::Kind::Automatic: return "auto";
  case MemoryLayout::Kind::Never: return "never";
  case MemoryLayout::Kind::Shift:
    return int64_t(layout.amount) < 0 ? "shift=-0x" + llvm::utohexstr(0 - layout.amount, true)
                                      : "shift=0x" + llvm::utohexstr(layout.amount, true);
  case MemoryLayout::Kind::Fragment: return "fragment";
  case MemoryLayout::Kind::Reverse: return "reverse";
  case MemoryLayout::Kind::Seeded: return "seed=" + std::to_string(layout.amount);
  }
  return "auto";
}

void RecordedExtent::add(uint64_t address, uint64_t size) {
  if (!size || address + (size - 1) < address)
    return; // Refused when it is mapped.
  lowest = std::min(lowest, address);
  highest = std::max(highest, address + (size - 1));
}

unsigned Placement::attempts() const {
  switch (layout.kind) {
  case MemoryLayout::Kind::Automatic: return 2; // As recorded, then as the target likes.
  case MemoryLayout::Kind::Never:
  case MemoryLayout::Kind::Shift:
  case MemoryLayout::Kind::Reverse: return 1;
  case MemoryLayout::Kind::Fragment:
  case MemoryLayout::Kind::Seeded: return 32;
  }
  return 1;
}

llvm::Error Placement::checkReach(uint64_t recorded, uint64_t placed, uint64_t size) const {
  uint64_t last = placed + (size - 1);
  // A device whose recorded memory is out of its own reach has a description that does not fit.
  bool reached = last >= placed && (last <= dmaMask || placed == recorded);
  if (reached)
    return llvm::Error::success();
  return failUsage("relocation-range",
                   std::to_string(size) + " bytes at 0x" + llvm::utohexstr(recorded, true) +
                       " cannot be placed at 0x" + llvm::utohexstr(placed, true) +
                       ": the device reaches addresses up to 0x" + llvm::utohexstr(dmaMask, true));
}

llvm::Expected<std::optional<uint64_t>> Placement::propose(uint64_t recorded, uint64_t size,
                                                           const AddressMap &live, unsigned attempt) {
  std::optional<uint64_t> placed;
  uint64_t room = pages(size), limit = std::min(dmaMask, highestChoice);
  switch (layout.kind) {
  case MemoryLayout::Kind::Automatic:
    if (attempt)
      return std::nullopt;
    return recorded;
  case MemoryLayout::Kind::Never: return recorded;
  case MemoryLayout::Kind::Shift: placed = recorded + layout.amount; break;
  case MemoryLayout::Kind::Reverse: {
    // Mirrored, above where it was if the device reaches that far.
    uint64_t span = pages(extent.highest - extent.lowest + 1);
    uint64_t base = extent.lowest + span + AddressMap::guard;
    if (base < extent.lowest || base > limit || limit - base < span)
      base = extent.lowest;
    placed = base + (extent.lowest + span - (recorded + room));
    break;
  }
  case MemoryLayout::Kind::Fragment:
  case MemoryLayout::Kind::Seeded: {
    if (limit < lowestChoice || limit - lowestChoice < room)
      break;
    // Nobody says how far the target's memory reaches: after a refusal it is looked for lower down.
    if (layout.kind == MemoryLayout::Kind::Seeded)
      for (unsigned halved = 0;
           halved < attempt && limit / 2 > smallestReach && limit / 2 - lowestChoice > room; ++halved)
        limit /= 2;
    uint64_t places = (limit - lowestChoice - room) / page + 1;
    uint64_t serial = placedRanges++;
    if (layout.kind == MemoryLayout::Kind::Seeded) {
      placed = lowestChoice + mix(mix(layout.amount) + serial) % places * page;
    } else {
      uint64_t behind = lowestChoice;
      for (const auto &[start, range] : live.ranges())
        behind = std::max(behind, range.placed + pages(range.size) + AddressMap::guard);
      placed = behind + (serial % 7 + 1) * 3 * page;
    }
    if (!live.isFree(*placed, room, AddressMap::guard))
      return propose(recorded, size, live, attempt + 1);
    break;
  }
  }
  if (!placed || attempt >= attempts())
    return failUsage("relocation-range",
                     "there is no place for " + std::to_string(size) + " bytes below 0x" +
                         llvm::utohexstr(limit, true),
                     "--relocate " + memoryLayoutText(layout));
  if (llvm::Error error = checkReach(recorded, *placed, size))
    return error;
  return placed;
}

} // namespace tapeback
