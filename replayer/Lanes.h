// Operations of several threads that overlapped when they were recorded, and what of their order counts: a
// thread's own, and that an operation which had come back was before one that had not begun.
#pragma once

#include "format/Packet.h"
#include <cstddef>
#include <vector>

namespace tapeback {

/// Packets [begin, end) of a batch of which some of different threads overlap in time, and no other packet
/// overlaps with them.
struct LaneCluster {
  size_t begin = 0, end = 0;
};

/// All clusters of the batch, in order. One has 4096 packets at most; what is longer is taken in parts.
std::vector<LaneCluster> findClusters(const PacketBatch &batch);

/// For reports.
struct LanesReport {
  uint64_t clusters = 0, packets = 0; ///< Of overlapping operations.
  uint64_t overtaken = 0;             ///< Packets that were done after one that the tape has behind them.
};

/// Who may go on in one cluster. Pure.
class LaneSchedule {
public:
  explicit LaneSchedule(const PacketBatch &batch, LaneCluster cluster);

  size_t lanes() const { return threads.size(); }
  /// The lane's next packet, as an index into the batch; the cluster's end if it has none.
  size_t next(size_t lane) const {
    return heads[lane] < queues[lane].size() ? queues[lane][heads[lane]] : cluster.end;
  }
  /// Everything that had come back before the lane's next packet began is done.
  bool mayIssue(size_t lane) const;
  void done(size_t lane) { ++heads[lane]; }
  bool finished() const;

private:
  const PacketBatch &batch;
  LaneCluster cluster;
  std::vector<uint16_t> threads;
  std::vector<std::vector<size_t>> queues; ///< By lane.
  std::vector<size_t> heads;
};

} // namespace tapeback
