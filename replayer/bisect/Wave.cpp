#include "replayer/bisect/Wave.h"
#include "format/Failure.h"

namespace tapeback {
namespace {

/// One endpoint on its own.
struct Side {
  TargetSet targets;
  std::unique_ptr<Player> player;
};

llvm::Expected<Side> openSide(TapeSource &source, const EndpointFactory &open, const StartState &start,
                              const PlayerOptions &options) {
  llvm::Expected<TargetSet> targets = open();
  if (!targets)
    return targets.takeError();
  Side side;
  side.targets = std::move(*targets);
  llvm::Expected<std::unique_ptr<Player>> player = Player::create(source, side.targets.targets, options);
  if (!player)
    return player.takeError();
  side.player = std::move(*player);
  if (llvm::Error error = side.player->prepare(start))
    return error;
  return side;
}

/// Issues [from, end) and looks at nothing. Ends early where the target stops.
llvm::Error play(TapeSource &source, Player &player, uint64_t from, uint64_t end) {
  PacketBatch batch;
  ObservationLog log;
  for (uint64_t at = from; at < end && !player.stopped();) {
    if (llvm::Error error = source.reader().readBlockFrom(at, batch))
      return error;
    size_t limit = size_t(std::min<uint64_t>(batch.packets.size(), end - at));
    if (!limit)
      return failTape("short-tape", "the tape ends before its last packet", "packet " + std::to_string(at));
    for (size_t i = 0; i < limit && !player.stopped();) {
      log.clear();
      llvm::Expected<size_t> issued = player.issue(batch, i, limit, log);
      if (!issued)
        return issued.takeError();
      if (!*issued)
        break;
      i += *issued;
    }
    at += limit;
  }
  return llvm::Error::success();
}

} // namespace

llvm::Expected<WaveReport> writeWave(TapeSource &source, const Endpoints &endpoints, const StartState &start,
                                     const PlayerOptions &options, uint16_t device, uint64_t window,
                                     llvm::StringRef file) {
  WaveReport report;
  report.file = file.str();
  report.window = window;
  llvm::Expected<WindowInfo> info = source.reader().window(window);
  if (!info)
    return info.takeError();
  report.firstPacket = info->firstPacket;
  report.endPacket = info->firstPacket + info->packetCount;
  for (auto [name, open] : {std::pair("bad", &endpoints.bad), std::pair("good", &endpoints.good)}) {
    llvm::Expected<Side> side = openSide(source, *open, start, options);
    if (!side)
      return side.takeError();
    if (!side->player->binding(device).capabilities().trace)
      continue;
    Target &target = side->player->binding(device).target();
    if (llvm::Error error = play(source, *side->player, 0, report.firstPacket))
      return error;
    if (side->player->stopped()) {
      report.reason = std::string("the ") + name + " endpoint stopped before the window";
      return report;
    }
    if (llvm::Error error = target.beginTrace(file))
      return error;
    llvm::Error played = play(source, *side->player, report.firstPacket, report.endPacket);
    if (llvm::Error error = llvm::joinErrors(std::move(played), target.endTrace()))
      return error;
    report.side = name;
    report.written = true;
    return report;
  }
  report.reason = "neither endpoint has traces";
  return report;
}

} // namespace tapeback
