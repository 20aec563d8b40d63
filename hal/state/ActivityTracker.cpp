#include "hal/state/ActivityTracker.h"

#include <algorithm>

namespace tapeback {

ActivityTracker::ActivityTracker(const Description *description, size_t maxOutstanding)
    : description(description), maxOutstanding(maxOutstanding) {
  if (!description)
    return;
  starts.resize(description->registers.size());
  ends.resize(description->registers.size());
  transfersOfActivity.resize(description->activities.size());
  lastStart.resize(description->activities.size(), noLink);
  for (unsigned i = 0; i < description->activities.size(); ++i) {
    const ActivityDescription &activity = description->activities[i];
    if (activity.starts.reg < starts.size())
      starts[activity.starts.reg].push_back({i, activity.starts});
    for (const RegisterCondition &done : activity.done)
      if (done.reg < ends.size())
        ends[done.reg].push_back({i, done});
  }
}

std::vector<unsigned> ActivityTracker::written(uint64_t ordinal, unsigned reg, uint64_t mask,
                                               uint64_t whole) {
  std::vector<unsigned> started;
  if (reg >= starts.size())
    return started;
  for (const Watch &watch : starts[reg]) {
    // A write to another part of the register is no command, whatever the rest still says.
    bool concerned = watch.condition.any || (watch.condition.mask & mask);
    if (!concerned || !watch.condition.holds(whole))
      continue;
    Running &running = active[watch.activity];
    if (running.endSeen) { // Of the run before nobody told what its transfers brought, and nobody will.
      std::set<uint64_t> &old = transfersOfActivity[watch.activity];
      for (auto it = old.begin(); it != old.end() && *it < running.since; it = old.erase(it))
        transfers.erase(*it);
    }
    running = Running{ordinal, lastStart[watch.activity], false, false};
    lastStart[watch.activity] = ordinal;
    started.push_back(watch.activity);
  }
  return started;
}

bool ActivityTracker::hasOutstanding(unsigned activity) const {
  return activity < transfersOfActivity.size() && !transfersOfActivity[activity].empty();
}

bool ActivityTracker::endIfComplete(unsigned activity) {
  auto it = active.find(activity);
  if (it == active.end() || !it->second.endSeen || hasOutstanding(activity))
    return false;
  active.erase(it);
  return true;
}

bool ActivityTracker::seen(unsigned reg, uint64_t mask, uint64_t part) {
  if (reg >= ends.size())
    return false;
  bool ended = false;
  for (const Watch &watch : ends[reg]) {
    auto it = active.find(watch.activity);
    bool visible = watch.condition.any || (watch.condition.mask & ~mask) == 0;
    if (it == active.end() || !visible || !watch.condition.holds(part))
      continue;
    it->second.endSeen = true;
    ended |= endIfComplete(watch.activity);
  }
  return ended;
}

bool ActivityTracker::mayEnd(unsigned reg, uint64_t value) const {
  return !active.empty() && std::any_of(ends[reg].begin(), ends[reg].end(),
                                        [&](const Watch &watch) { return watch.condition.holds(value); });
}

void ActivityTracker::descriptor(uint64_t ordinal, const OutstandingTransfer &transfer) {
  if (transfers.size() + operations.size() >= maxOutstanding) {
    overflowed = true;
    return;
  }
  OutstandingTransfer kept = transfer;
  if (kept.activity && *kept.activity >= transfersOfActivity.size())
    kept.activity.reset();
  if (kept.activity)
    transfersOfActivity[*kept.activity].insert(ordinal);
  if (kept.queue)
    ++ofQueue[*kept.queue];
  transfers[ordinal] = kept;
}

bool ActivityTracker::meetsOthers(const OutstandingTransfer &transfer) {
  size_t own = 0;
  if (auto it = ofQueue.find(*transfer.queue); it != ofQueue.end())
    own = it->second;
  if (own == transfers.size())
    return false;
  constexpr size_t maxLooks = 4096;
  bool met = transfers.size() > maxLooks;
  size_t looks = 0;
  for (auto it = transfers.rbegin(); it != transfers.rend() && looks < maxLooks; ++it, ++looks) {
    OutstandingTransfer &other = it->second;
    if (other.queue == transfer.queue)
      continue;
    bool host = (!other.toDevice || !transfer.toDevice) &&
                other.host.overlaps(transfer.host.address, transfer.host.last());
    bool inside = (other.toDevice || transfer.toDevice) &&
                  other.device.overlaps(transfer.device.address, transfer.device.last());
    if (!host && !inside)
      continue;
    other.uncertain = true;
    met = true;
  }
  return met;
}

std::optional<OutstandingTransfer> ActivityTracker::completed(uint64_t descriptor, bool &ended) {
  ended = false;
  auto it = transfers.find(descriptor);
  if (it == transfers.end())
    return std::nullopt;
  OutstandingTransfer transfer = it->second;
  transfers.erase(it);
  if (transfer.queue)
    --ofQueue[*transfer.queue];
  if (!transfer.activity) {
    ended = true;
    return transfer;
  }
  transfersOfActivity[*transfer.activity].erase(descriptor);
  // The program knows that all transfers are done: so is the activity, by whatever it knew it (an acquire).
  if (!hasOutstanding(*transfer.activity)) {
    active.erase(*transfer.activity);
    ended = true;
  }
  return transfer;
}

bool ActivityTracker::hasTransfersOfLastStart(unsigned activity) const {
  auto it = active.find(activity);
  if (it == active.end() || !hasOutstanding(activity))
    return false;
  uint64_t newest = *transfersOfActivity[activity].rbegin();
  return it->second.previousStart == noLink || newest > it->second.previousStart;
}

bool ActivityTracker::deviceMayWrite(uint64_t first, uint64_t last) const {
  return std::any_of(transfers.begin(), transfers.end(), [&](const auto &entry) {
    const OutstandingTransfer &transfer = entry.second;
    return !transfer.toDevice && transfer.host.overlaps(first, last);
  });
}

void ActivityTracker::pending(uint64_t ordinal, const Packet &packet) {
  if (transfers.size() + operations.size() >= maxOutstanding)
    overflowed = true;
  else
    operations[ordinal] = packet;
}

std::optional<Packet> ActivityTracker::cameBack(uint64_t ordinal) {
  auto it = operations.find(ordinal);
  if (it == operations.end())
    return std::nullopt;
  Packet packet = it->second;
  operations.erase(it);
  return packet;
}

void ActivityTracker::reset() {
  active.clear();
  transfers.clear();
  ofQueue.clear();
  for (std::set<uint64_t> &ordinals : transfersOfActivity)
    ordinals.clear();
  operations.clear();
  submissions = 0;
  overflowed = false;
}

void ActivityTracker::lost(uint64_t ordinal) {
  reset();
  for (unsigned i = 0; i < lastStart.size(); ++i)
    active[i] = Running{ordinal, noLink, false, true};
}

bool ActivityTracker::idle() const {
  return active.empty() && transfers.empty() && operations.empty() && submissions == 0 && !overflowed;
}

std::vector<std::string> ActivityTracker::names() const {
  std::vector<std::string> result;
  for (const auto &[activity, running] : active)
    result.push_back(description->activities[activity].name +
                     (running.uncertain ? " (perhaps: packets were lost)" : ""));
  bool nameless = std::any_of(transfers.begin(), transfers.end(), [&](const auto &entry) {
    return !entry.second.activity || !active.count(*entry.second.activity);
  });
  if (nameless)
    result.push_back("a transfer");
  if (submissions)
    result.push_back("a submission");
  if (!operations.empty())
    result.push_back("an operation that has not come back");
  if (overflowed)
    result.push_back("more than can be remembered");
  return result;
}

} // namespace tapeback
