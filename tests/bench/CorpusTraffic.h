// Real register logs, repeated with variations until there are millions of packets. The logs are other
// people's and no part of the project: TAPEBACK_CORPUS names the folder that holds them.
#pragma once

#include "format/Packet.h"

#include <string>
#include <vector>

namespace tapeback::bench {

struct CorpusLog {
  std::string name; ///< "mali" or "vfio".
  std::vector<Packet> accesses;
};

/// The logs that are there; none if TAPEBACK_CORPUS is not set. Lines that are no access are skipped.
std::vector<CorpusLog> corpusLogs();

/// The log over and over: with gaps that vary, polls that take more or fewer reads, buffers at other places,
/// and in one of sixteen accesses a few bits that differ. The same seed gives the same packets.
std::vector<Packet> mutatedTraffic(const CorpusLog &log, size_t count, uint64_t seed = 1);

} // namespace tapeback::bench
