#include "replayer/reduce/Reduce.h"
#include "replayer/reduce/Groups.h"
#include "replayer/reduce/Plain.h"
#include "replayer/reduce/Search.h"
#include "replayer/reduce/Units.h"

namespace tapeback {
namespace {

/// In the order in which they come; a state says in which it was.
enum class Stage : uint8_t { Spans, Windows, Commands, Shortening, Zeroing, Passive, Groups, Packets };
constexpr llvm::StringLiteral stageNames[] = {"spans",   "windows", "commands", "shortening",
                                              "zeroing", "passive", "groups",   "packets"};

/// A resumed search does not do again what it had done.
Stage firstStage(const ReduceOptions &options) {
  for (size_t i = 0; options.resume && i < std::size(stageNames); ++i)
    if (options.resume->stage == stageNames[i])
      return Stage(i);
  return Stage::Spans;
}

/// Without these units; true: they are gone (or were).
llvm::Expected<bool> removeUnits(Search &search, llvm::ArrayRef<Unit> units, const char *stage) {
  Selection without = search.best();
  bool any = false;
  for (const Unit &unit : units)
    for (uint32_t packet : unit) {
      any |= without.kept[packet];
      without.kept[packet] = false;
    }
  return any ? search.attempt(std::move(without), stage) : llvm::Expected<bool>(true);
}

/// Of so few units that have been gone through in coarser ones nearly all are needed: groups would be in
/// vain.
constexpr size_t few = 64;

/// All at once. `neverAll`: together they are all there is.
std::vector<Group> together(const std::vector<Unit> &units, bool neverAll) {
  return {{0, units.size(), neverAll}};
}

std::vector<Group> oneByOne(const std::vector<Unit> &units) {
  std::vector<Group> groups;
  for (size_t i = 0; i < units.size(); ++i)
    groups.push_back({i, i + 1, false});
  return groups;
}

/// Takes away as many units as it can, the last ones first: what comes early is what the rest needs.
llvm::Error removeInGroups(Search &search, const char *stage, const std::vector<Unit> &units,
                           std::vector<Group> groups) {
  uint64_t runsBefore = search.report().runs;
  auto remove = [&](Group group) {
    return removeUnits(search, llvm::ArrayRef(units).slice(group.first, group.size()), stage);
  };
  llvm::Expected<std::vector<size_t>> left =
      changeInGroups(std::move(groups), remove, [&] { return search.over(); });
  if (!left)
    return left.takeError();
  search.endStage(stage, runsBefore);
  return llvm::Error::success();
}

/// One by one, until none can go.
llvm::Error removeSingly(Search &search) {
  uint64_t runsBefore = search.report().runs;
  std::vector<Unit> units = packetUnits(search.tape(), search.best());
  for (bool changed = true; changed && !search.over();) {
    changed = false;
    for (size_t i = units.size(); i-- && !search.over();) {
      llvm::Expected<bool> gone = removeUnits(search, units[i], "packets");
      if (!gone)
        return gone.takeError();
      if (!*gone)
        continue;
      units.erase(units.begin() + long(i));
      changed = true;
    }
  }
  search.endStage("packets", runsBefore);
  search.report().minimal = search.report().stopped.empty();
  return llvm::Error::success();
}

llvm::Error removeSpans(Search &search) {
  constexpr unsigned deepest = 16;
  for (unsigned depth = 0; depth < deepest; ++depth) {
    std::vector<Unit> units = spanUnits(search.tape(), depth);
    if (units.empty())
      break;
    if (llvm::Error error = removeInGroups(search, "spans", units, together(units, false)))
      return error;
  }
  return llvm::Error::success();
}

/// The last one fails, and without the first there is mostly nothing to go on: these are for the later
/// stages.
llvm::Error removeWindows(Search &search) {
  std::vector<Unit> units = windowUnits(search.tape());
  auto isGone = [&](const Unit &unit) {
    return llvm::none_of(unit, [&](uint32_t packet) { return search.best().kept[packet]; });
  };
  llvm::erase_if(units, isGone);
  const size_t last = units.empty() ? 0 : units.size() - 1;
  if (llvm::Error error =
          removeInGroups(search, "windows", units, {{std::min<size_t>(1, last), last, false}}))
    return error;
  // Once more: what depends on how many there are may go in another order.
  llvm::erase_if(units, isGone);
  return removeInGroups(search, "windows", units,
                        units.size() <= few ? oneByOne(units) : std::vector<Group>());
}

/// Spans, windows, commands; simpler; packets.
llvm::Error byStages(Search &search) {
  const Stage first = firstStage(search.asked());
  if (first <= Stage::Spans)
    if (llvm::Error error = removeSpans(search))
      return error;
  if (first <= Stage::Windows)
    if (llvm::Error error = removeWindows(search))
      return error;
  if (first <= Stage::Commands) {
    std::vector<Unit> units = commandUnits(search.tape(), search.best());
    if (llvm::Error error = removeInGroups(search, "commands", units,
                                           units.size() <= few ? oneByOne(units) : together(units, true)))
      return error;
  }
  if (first <= Stage::Zeroing)
    if (llvm::Error error = simplify(search))
      return error;
  const uint32_t failing = uint32_t(search.report().first.place.packet);
  std::vector<Unit> units = passiveUnits(search.tape(), search.best(), failing);
  if (llvm::Error error = removeInGroups(search, "passive", units, together(units, false)))
    return error;
  units = packetUnits(search.tape(), search.best());
  if (first <= Stage::Groups && units.size() > few)
    if (llvm::Error error = removeInGroups(search, "groups", units, together(units, true)))
      return error;
  return removeSingly(search);
}

/// As a peer does it that knows nothing of devices.
llvm::Error plainly(Search &search) {
  uint64_t runsBefore = search.report().runs;
  std::vector<uint32_t> items;
  for (uint32_t i = 0; i < search.best().kept.size(); ++i)
    if (search.best().kept[i])
      items.push_back(i);
  auto still = [&](const std::vector<uint32_t> &kept) {
    Selection selection = search.best();
    selection.kept.assign(selection.kept.size(), false);
    for (uint32_t i : kept)
      selection.kept[i] = true;
    return search.attempt(std::move(selection), "packets");
  };
  llvm::Expected<std::vector<uint32_t>> left =
      plainDdmin(std::move(items), still, [&] { return search.over(); });
  if (!left)
    return left.takeError();
  search.endStage("packets", runsBefore);
  search.report().minimal = search.report().stopped.empty();
  return llvm::Error::success();
}

} // namespace

llvm::Expected<ReduceReport> reduceTape(const TapeImage &image, const Endpoints &endpoints,
                                        const ReduceOptions &options) {
  Search search(image, endpoints, options);
  if (llvm::Error error = search.begin())
    return error;
  if (llvm::Error error = options.plain ? plainly(search) : byStages(search))
    return error;
  if (options.intermittent.on && search.report().stopped.empty())
    if (llvm::Error error = search.measureAgain())
      return error;
  return search.finish();
}

} // namespace tapeback
