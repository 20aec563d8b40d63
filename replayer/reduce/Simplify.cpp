// Less to move and zeroes to store, where the failure stays. Before single packets are looked at, so that
// what this makes unnecessary goes with them, and no packet has to be tried twice.
#include "replayer/reduce/Groups.h"
#include "replayer/reduce/Lengths.h"
#include "replayer/reduce/Search.h"
#include "llvm/ADT/STLExtras.h"

namespace tapeback {
namespace {

class Simplifying {
public:
  explicit Simplifying(Search &search) : search(search), image(search.tape()) {}

  llvm::Error shorten();
  llvm::Error zero();

private:
  /// A part of a content that is to be zero.
  struct Piece {
    uint32_t packet;
    uint64_t from, to;
  };
  llvm::Error halve(std::vector<Length> &lengths, llvm::ArrayRef<size_t> longer);
  llvm::Error lessen(const Length &length);
  llvm::Error collect(uint32_t packet);
  bool isZero(llvm::ArrayRef<uint8_t> content, uint64_t from, uint64_t to) const;

  Search &search;
  const TapeImage &image;
  bool halved = false;
  std::vector<Piece> pieces;
  std::vector<Group> contents; ///< The pieces of one packet each.
};

/// All lengths to 1 at once, and so on; those that must be more are made smaller one by one.
llvm::Error Simplifying::shorten() {
  uint64_t runsBefore = search.report().runs;
  llvm::Expected<std::vector<Length>> lengths = findLengths(image, search.best());
  if (!lengths)
    return lengths.takeError();
  // Of the list's end is what the groups begin with: the tape's last ones, as everywhere.
  std::reverse(lengths->begin(), lengths->end());
  auto toOne = [&](Group group) {
    Selection other = search.best();
    for (size_t i = group.first; i < group.last; ++i)
      (*lengths)[i].set(other, 1);
    return search.attempt(std::move(other), "shortening");
  };
  llvm::Expected<std::vector<size_t>> longer =
      changeInGroups({{0, lengths->size(), false}}, toOne, [&] { return search.over(); });
  if (!longer)
    return longer.takeError();
  search.report().shortened += lengths->size() - longer->size();
  if (llvm::Error error = halve(*lengths, *longer))
    return error;
  for (size_t i : llvm::reverse(*longer))
    if (llvm::Error error = lessen((*lengths)[i]))
      return error;
  search.endStage("shortening", runsBefore);
  return llvm::Error::success();
}

/// Those that must be more than 1, together, as often as that goes.
llvm::Error Simplifying::halve(std::vector<Length> &lengths, llvm::ArrayRef<size_t> longer) {
  while (longer.size() > 1 && !search.over() &&
         llvm::all_of(longer, [&](size_t i) { return lengths[i].present / 2 > 1; })) {
    Selection other = search.best();
    for (size_t i : longer)
      lengths[i].set(other, lengths[i].present / 2);
    llvm::Expected<bool> same = search.attempt(std::move(other), "shortening");
    if (!same)
      return same.takeError();
    if (!*same)
      break;
    for (size_t i : longer)
      lengths[i].present /= 2;
    halved = true;
  }
  return llvm::Error::success();
}

/// Down by ever smaller steps; the last ones are a quarter of what it is by then.
llvm::Error Simplifying::lessen(const Length &length) {
  constexpr uint64_t parts = 4;
  uint64_t present = length.present;
  for (uint64_t step = present / 2; step && step >= present / parts && !search.over();) {
    if (present - step <= 1) {
      step /= 2;
      continue;
    }
    Selection other = search.best();
    length.set(other, present - step);
    llvm::Expected<bool> same = search.attempt(std::move(other), "shortening");
    if (!same)
      return same.takeError();
    if (*same)
      present -= step;
    step = *same ? std::min(step, present / 2) : step / 2;
  }
  search.report().shortened += halved || present < length.present;
  return llvm::Error::success();
}

bool Simplifying::isZero(llvm::ArrayRef<uint8_t> content, uint64_t from, uint64_t to) const {
  return llvm::all_of(content.slice(size_t(from), size_t(to - from)), [](uint8_t byte) { return !byte; });
}

/// The parts of a packet's content that are not zero already.
llvm::Error Simplifying::collect(uint32_t packet) {
  constexpr uint64_t parts = 16;
  llvm::Expected<llvm::ArrayRef<uint8_t>> content = image.source->reader().blob(image.extras[packet].payload);
  if (!content)
    return content.takeError();
  uint64_t size = std::min<uint64_t>(image.extras[packet].length, content->size());
  auto change = search.best().changes.find(packet);
  const bool inRows = image.extras[packet].count > 1;
  if (change != search.best().changes.end() && change->second.rowBytes && !inRows)
    size = std::min(size, *change->second.rowBytes);
  Group group{pieces.size(), pieces.size(), false};
  const uint64_t step = std::max<uint64_t>((size + parts - 1) / parts, 1);
  for (uint64_t from = 0; from < size; from += step) {
    uint64_t to = std::min(from + step, size);
    if (!isZero(*content, from, to))
      pieces.push_back({packet, from, to});
  }
  group.last = pieces.size();
  if (group.size())
    contents.push_back(group);
  return llvm::Error::success();
}

/// All contents at once, then fewer, then parts of those that matter.
llvm::Error Simplifying::zero() {
  uint64_t runsBefore = search.report().runs;
  for (uint32_t i = 0; i < image.packets.size(); ++i)
    if (search.best().kept[i] && image.packets[i].kind == PacketKind::MemoryWrite && image.extras[i].payload)
      if (llvm::Error error = collect(i))
        return error;
  auto attempt = [&](size_t first, size_t last) -> llvm::Expected<bool> {
    Selection other = search.best();
    uint64_t bytes = 0;
    for (size_t p = first; p < last; ++p) {
      other.changes[pieces[p].packet].addZeroes(
          {std::pair<uint64_t, uint64_t>(pieces[p].from, pieces[p].to)});
      bytes += pieces[p].to - pieces[p].from;
    }
    llvm::Expected<bool> same = search.attempt(std::move(other), "zeroing");
    if (same && *same)
      search.report().zeroed += bytes;
    return same;
  };
  auto isOver = [&] { return search.over(); };
  auto wholly = [&](Group group) {
    return attempt(contents[group.first].first, contents[group.last - 1].last);
  };
  llvm::Expected<std::vector<size_t>> matter = changeInGroups({{0, contents.size(), false}}, wholly, isOver);
  if (!matter)
    return matter.takeError();
  std::vector<Group> parts;
  for (size_t i : *matter)
    parts.push_back({contents[i].first, contents[i].last, true});
  auto partly = [&](Group group) { return attempt(group.first, group.last); };
  if (llvm::Expected<std::vector<size_t>> left = changeInGroups(std::move(parts), partly, isOver); !left)
    return left.takeError();
  search.endStage("zeroing", runsBefore);
  return llvm::Error::success();
}

} // namespace

llvm::Error simplify(Search &search) {
  Simplifying simplifying(search);
  if (llvm::Error error = simplifying.shorten())
    return error;
  return simplifying.zero();
}

} // namespace tapeback
