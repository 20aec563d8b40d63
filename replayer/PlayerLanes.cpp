// The part of Player that issues overlapping operations of several threads: each thread in its own order, and
// none waits for another that it had not waited for in the recording.
//
// Targets take one call at a time, so that there is one thread here, too: a wait is looked at once, and while
// it is not over, the other lanes go on. What is done is the same for every run with the same answers.
#include "replayer/Player.h"
#include <algorithm>

namespace tapeback {

using State = Observation::State;

namespace {

/// Waits that need not be over for other lanes to go on.
bool isWait(const Packet &packet) {
  return packet.kind == PacketKind::Poll || packet.kind == PacketKind::MemoryWait ||
         packet.kind == PacketKind::Interrupt;
}

} // namespace

/// Carries out one packet into `lane`, whose observation is then put where it belongs in `log`. True unless
/// it is a wait that is not over, and `final` does not say that it has to be.
llvm::Expected<bool> Player::tryInLane(const PacketBatch &batch, size_t index, bool final,
                                       ObservationLog &lane, ObservationLog &log, Observation &place) {
  lane.clear();
  const WaitLimits limits = options.waits;
  const uint64_t vainBefore = vainTime;
  bool glances = isWait(batch.packets[index]);
  if (glances) // Looked at once.
    options.waits.maxDeadline = 0;
  llvm::Error error = single(batch, index, lane);
  options.waits = limits;
  if (error)
    return error;
  Observation o = lane.observations.front();
  if (glances && o.state == State::TimedOut && !final) {
    vainTime = vainBefore;
    return false;
  }
  if (o.contentLength) {
    llvm::ArrayRef<uint8_t> content = lane.contentOf(o);
    o.contentOffset = log.content.size();
    log.content.insert(log.content.end(), content.begin(), content.end());
  }
  if (o.failure && o.failure <= lane.failures.size()) {
    log.failures.push_back(std::move(lane.failures[o.failure - 1]));
    o.failure = uint32_t(log.failures.size());
  }
  if (o.wait && o.wait <= lane.waits.size()) {
    const PacketExtra &extra = batch.extra(batch.packets[index]);
    log.waits.push_back(lane.waits[o.wait - 1]);
    log.waits.back().deadline = std::min(extra.deadline, options.waits.maxDeadline);
    o.wait = uint32_t(log.waits.size());
  }
  place = o;
  return true;
}

llvm::Expected<size_t> Player::issueLanes(const PacketBatch &batch, LaneCluster cluster,
                                          ObservationLog &log) {
  constexpr uint64_t shortestStep = 1'000, longestStep = 10'000'000, hostShare = 1'000'000'000;
  if (llvm::Error error = flush(log))
    return error;
  LaneSchedule schedule(batch, cluster);
  struct Waiting {
    bool begun = false;
    uint64_t passed = 0; ///< On the targets' clocks since it was looked at first.
    HostTimer timer;
  };
  std::vector<Waiting> waits(schedule.lanes());
  std::vector<bool> isDone(cluster.end - cluster.begin);
  size_t before = log.observations.size();
  log.observations.resize(before + isDone.size());
  ObservationLog lane;
  std::vector<size_t> ready;
  ++laneCounts.clusters;
  laneCounts.packets += isDone.size();
  while (!schedule.finished() && !isStopped) {
    // The tape's order where nothing stands against it.
    bool progressed = false;
    ready.clear();
    for (size_t i = 0; i < schedule.lanes(); ++i)
      if (schedule.mayIssue(i))
        ready.push_back(i);
    std::sort(ready.begin(), ready.end(),
              [&](size_t a, size_t b) { return schedule.next(a) < schedule.next(b); });
    for (size_t which : ready) {
      size_t index = schedule.next(which);
      const Packet &packet = batch.packets[index];
      if (packet.device >= bindings.size())
        return failTape("unknown-device", "a packet of a device that the tape does not have",
                        "packet " + std::to_string(batch.firstOrdinal + index));
      Waiting &wait = waits[which];
      uint64_t deadline = std::min(batch.extra(packet).deadline, options.waits.maxDeadline);
      uint64_t hostPassed = wait.begun ? wait.timer.elapsed() : 0;
      bool final = !isWait(packet) || !bindings[packet.device].capabilities().answers ||
                   (wait.passed >= deadline && hostPassed >= std::min(deadline, hostShare)) ||
                   hostPassed >= options.waits.maxHostTime;
      if (!wait.begun)
        wait = {true, 0, HostTimer()};
      llvm::Expected<bool> over =
          tryInLane(batch, index, final, lane, log, log.observations[before + (index - cluster.begin)]);
      if (!over)
        return over.takeError();
      if (!*over)
        continue;
      if (log.observations[before + (index - cluster.begin)].state == State::TimedOut)
        vainTime += wait.timer.elapsed();
      isDone[index - cluster.begin] = true;
      laneCounts.overtaken += std::find(isDone.begin(), isDone.begin() + ptrdiff_t(index - cluster.begin),
                                        false) != isDone.begin() + ptrdiff_t(index - cluster.begin);
      schedule.done(which);
      wait = {};
      progressed = true;
      break; // Who is next may be another.
    }
    if (progressed || isStopped)
      continue;
    // All that may go on waits: time passes, on every device that is waited for.
    uint64_t least = ~uint64_t(0);
    for (size_t which : ready)
      least = std::min(least, waits[which].passed);
    uint64_t step = std::clamp(least / 8, shortestStep, longestStep);
    std::vector<bool> advanced(bindings.size());
    for (size_t which : ready) {
      waits[which].passed += step;
      uint16_t device = batch.packets[schedule.next(which)].device;
      if (advanced[device])
        continue;
      advanced[device] = true;
      if (llvm::Error error = bindings[device].target().advance(step)) {
        size_t index = schedule.next(which) - cluster.begin;
        if (llvm::Error fatal =
                noteFailure(std::move(error), batch.packets[schedule.next(which)],
                            batch.firstOrdinal + schedule.next(which), log, log.observations[before + index]))
          return fatal;
        isDone[index] = true;
        schedule.done(which);
        waits[which] = {};
        break;
      }
    }
  }
  // A target that stopped: what lies behind the first that was not reached cannot be told in order.
  size_t reached = size_t(std::find(isDone.begin(), isDone.end(), false) - isDone.begin());
  log.observations.resize(before + reached);
  return reached;
}

} // namespace tapeback
