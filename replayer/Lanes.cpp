#include "replayer/Lanes.h"
#include <algorithm>

namespace tapeback {
namespace {

/// When it had come back. What never did is waited for by nobody.
uint64_t returnOf(const Packet &packet) {
  return std::max(packet.issueTime, packet.completeTime);
}

} // namespace

std::vector<LaneCluster> findClusters(const PacketBatch &batch) {
  constexpr size_t mostPackets = 4096;
  const std::vector<Packet> &packets = batch.packets;
  std::vector<LaneCluster> clusters;
  // Packets are in the order in which they came back; a wait that stands far behind may have begun long ago.
  std::vector<uint64_t> earliestBehind(packets.size() + 1, ~uint64_t(0));
  for (size_t i = packets.size(); i-- > 0;)
    earliestBehind[i] = std::min(earliestBehind[i + 1], packets[i].issueTime);
  for (size_t begin = 0; begin < packets.size();) {
    uint64_t latest = returnOf(packets[begin]);
    bool several = false;
    size_t end = begin + 1;
    for (; end < packets.size() && end - begin < mostPackets && earliestBehind[end] < latest; ++end) {
      several |= packets[end].thread != packets[begin].thread;
      latest = std::max(latest, returnOf(packets[end]));
    }
    if (several)
      clusters.push_back({begin, end});
    begin = end;
  }
  return clusters;
}

LaneSchedule::LaneSchedule(const PacketBatch &batch, LaneCluster cluster) : batch(batch), cluster(cluster) {
  for (size_t i = cluster.begin; i < cluster.end; ++i) {
    uint16_t thread = batch.packets[i].thread;
    size_t lane = size_t(std::find(threads.begin(), threads.end(), thread) - threads.begin());
    if (lane == threads.size()) {
      threads.push_back(thread);
      queues.emplace_back();
    }
    queues[lane].push_back(i);
  }
  heads.resize(threads.size());
}

bool LaneSchedule::mayIssue(size_t lane) const {
  size_t index = next(lane);
  if (index == cluster.end)
    return false;
  for (size_t other = 0; other < lanes(); ++other) {
    size_t first = next(other);
    // Of each lane the first that is not done came back first.
    if (other != lane && first < index && returnOf(batch.packets[first]) <= batch.packets[index].issueTime)
      return false;
  }
  return true;
}

bool LaneSchedule::finished() const {
  for (size_t lane = 0; lane < lanes(); ++lane)
    if (next(lane) != cluster.end)
      return false;
  return true;
}

} // namespace tapeback
