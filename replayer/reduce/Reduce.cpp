#include "replayer/reduce/Reduce.h"
#include "replayer/reduce/Groups.h"
#include "replayer/reduce/Plain.h"
#include "replayer/reduce/Search.h"
#include "replayer/reduce/Units.h"

namespace tapeback {
namespace {

/// In the order in which they come; a state says in which it was.
enum class Stage : uint8_t { Spans, Windows, Commands, Shortening, Zeroing, Groups, Packets };
constexpr llvm::StringLiteral stageNames[] = {"spans",   "windows", "commands", "shortening",
                                              "zeroing", "groups",  "packets"};

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

/// Takes away as many units as it can, the last ones first: what comes early is what the rest needs.
/// `neverAll`: together they are all there is.
llvm::Error removeInGroups(Search &search, const char *stage, const std::vector<Unit> &units, bool neverAll,
                           bool oneByOne = false) {
  uint64_t runsBefore = search.report().runs;
  auto remove = [&](Group group) {
    return removeUnits(search, llvm::ArrayRef(units).slice(group.first, group.size()), stage);
  };
  std::vector<Group> groups;
  if (oneByOne)
    for (size_t i = 0; i < units.size(); ++i)
      groups.push_back({i, i + 1, false});
  else
    groups.push_back({0, units.size(), neverAll});
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
    if (llvm::Error error = removeInGroups(search, "spans", units, false))
      return error;
  }
  return llvm::Error::success();
}

/// Spans, windows, commands; simpler; packets.
llvm::Error byStages(Search &search) {
  const Stage first = firstStage(search.asked());
  if (first <= Stage::Spans)
    if (llvm::Error error = removeSpans(search))
      return error;
  if (first <= Stage::Windows)
    if (llvm::Error error = removeInGroups(search, "windows", windowUnits(search.tape()), true))
      return error;
  if (first <= Stage::Commands) {
    std::vector<Unit> units = commandUnits(search.tape(), search.best());
    if (llvm::Error error = removeInGroups(search, "commands", units, true, units.size() <= few))
      return error;
  }
  if (first <= Stage::Zeroing)
    if (llvm::Error error = simplify(search))
      return error;
  std::vector<Unit> units = packetUnits(search.tape(), search.best());
  if (first <= Stage::Groups && units.size() > few)
    if (llvm::Error error = removeInGroups(search, "groups", units, true))
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
