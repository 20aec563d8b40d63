#include "replayer/bisect/Bisect.h"
#include "replayer/Rows.h"
#include "replayer/bisect/Bisection.h"
#include "replayer/bisect/ProbeLog.h"
#include <cmath>
#include <cstdio>

namespace tapeback {

llvm::Expected<BisectReport> Bisection::run() {
  if (llvm::Error error = prepare())
    return error;
  if (options.at)
    return probeOnce();
  if (llvm::Error error = observe())
    return error;
  if (isIntermittent() || options.intermittent)
    if (llvm::Error error = measureRate())
      return error;
  bool possible = !report.coverage.packetsNotCompared && !report.goodFailure && !report.goodIntermittent;
  if (options.deep && possible) {
    // Behind what the host saw the sides may have been used differently: nothing there says anything.
    if (report.observed) {
      size_t before = boundaries.size();
      while (!boundaries.empty() && boundaries.back().end > report.observed->place.packet)
        boundaries.pop_back();
      if (before > boundaries.size())
        report.coverage.windowsNotProbed["behind the divergence that the host saw"] +=
            before - boundaries.size();
    }
    bool noisy = report.badIntermittent || options.intermittent;
    if (!noisy)
      if (llvm::Error error = search())
        return error;
    // The probes may be the first to show that it does not repeat itself.
    if (!noisy && report.badIntermittent && !report.first)
      if (llvm::Error error = measureRate())
        return error;
    if (report.badIntermittent || options.intermittent)
      if (llvm::Error error = searchNoisy())
        return error;
    if (options.measureDrains && !report.rate)
      if (llvm::Error error = measureRate())
        return error;
    if (report.rate && (report.drains || options.measureDrains))
      if (llvm::Error error = measureDrains())
        return error;
  } else if (options.deep) {
    report.notes.push_back(report.goodIntermittent
                               ? "the states were not searched: the good endpoint does not repeat itself"
                               : "the states were not searched: an endpoint does not answer, or failed");
  }
  if (llvm::Error error = conclude())
    return error;
  if (llvm::Error error = showChain())
    return error;
  if (llvm::Error error = tellMoment())
    return error;
  if (report.first && !options.waveFile.empty()) {
    llvm::Expected<WaveReport> wave =
        writeWave(source, endpoints, start, options.player, report.first->place.device,
                  report.first->place.window, options.waveFile);
    if (!wave)
      return wave.takeError();
    report.wave = std::move(*wave);
  }
  report.resumed = options.log ? options.log->used() : 0;
  return std::move(report);
}

/// One step of a search, for itself.
llvm::Expected<BisectReport> Bisection::probeOnce() {
  report.method = "probe";
  uint64_t end = std::min(*options.at, source.reader().summary().packets);
  llvm::Expected<std::optional<StateDifference>> difference = probeAt(end, probeAll);
  if (!difference)
    return difference.takeError();
  report.stateAt = *difference;
  report.verdict = *difference ? Verdict::Divergence : bothAnswer ? Verdict::Match : Verdict::Incomplete;
  return std::move(report);
}

llvm::Error Bisection::findBoundaries() {
  constexpr uint64_t most = 1 << 20;
  TapeReader &reader = source.reader();
  for (uint64_t n = 0; n < reader.summary().windows; ++n) {
    llvm::Expected<WindowInfo> window = reader.window(n);
    if (!window)
      return window.takeError();
    if (!window->quiescent)
      ++report.coverage.windowsNotProbed["not quiescent at its end"];
    else if (boundaries.size() == most)
      ++report.coverage.windowsNotProbed["too many windows"];
    else
      boundaries.push_back({n, window->firstPacket + window->packetCount});
  }
  return llvm::Error::success();
}

/// That two endpoints agree is no word on what was recorded when neither of them did that. A failure of rate
/// r stays unseen in n passes with probability (1 - r)^n, which is 5 % at r = 1 - 0.05^(1/n).
static std::string notShown(size_t passes) {
  const double most = 100 * (1 - std::pow(0.05, 1 / double(std::max<size_t>(passes, 1))));
  char rate[16];
  std::snprintf(rate, sizeof(rate), "%.2g", most);
  return "neither endpoint did what the tape recorded: after " + std::to_string(passes) +
         (passes == 1 ? " pass" : " passes") + " without it, a failure that comes in up to " + rate +
         " % of passes is still possible (95 %). If it is such a one: --intermittent --rate-runs 300";
}

llvm::Error Bisection::conclude() {
  bool asObserved = !report.first;
  if (asObserved && report.observed) {
    if (!report.rate)
      report.first = report.observed;
    else if (std::optional<uint64_t> window = commonWindow(); window && observedIn.count(*window))
      report.first = observedIn.at(*window);
    else
      report.notes.push_back("the passes parted in several windows: none of them is named");
  }
  if (asObserved && report.first) {
    const Divergence &first = *report.first;
    std::optional<WrittenThing> thing;
    Packet packet;
    PacketExtra extra;
    if (llvm::Error error = source.packetAt(first.place.packet, packet, extra))
      return error;
    if (first.space == "memory" && first.offset) {
      thing = WrittenThing{WrittenThing::Kind::Memory, first.place.device, 0,
                           contentAddress(packet, extra, *first.offset), "memory"};
    } else if (!first.reg.empty()) {
      thing = WrittenThing{WrittenThing::Kind::Register, first.place.device, packet.space, first.address,
                           first.reg};
    }
    if (thing) {
      llvm::Expected<std::vector<WriterRecord>> writers = findWriters(source, *thing, first.place.packet);
      if (!writers)
        return writers.takeError();
      report.writers = std::move(*writers);
    }
  }
  for (std::optional<Divergence> *divergence : {&report.first, &report.observed, &report.goodAgainstTape})
    if (*divergence)
      if (llvm::Error error = completePlace(source, (*divergence)->place))
        return error;
  if (report.first)
    if (llvm::Error error = linesBefore(report.first->place.packet, report.first->place.device))
      return error;
  if (report.goodFailure)
    report.verdict = Verdict::Error;
  else if (report.first || report.observed || (report.search && report.search->hits))
    report.verdict = Verdict::Divergence;
  else if (report.coverage.packetsNotCompared)
    report.verdict = Verdict::Incomplete;
  else
    report.verdict = Verdict::Match;
  if (report.verdict == Verdict::Match && report.goodAgainstTape)
    report.notes.push_back(notShown(report.runs.size()));
  return llvm::Error::success();
}

llvm::Error Bisection::linesBefore(uint64_t packet, uint16_t device) {
  constexpr uint64_t farthest = 1024; // Packets of other devices in between.
  Packet seen;
  PacketExtra extra;
  for (uint64_t back = 0; back <= std::min(packet, farthest) && report.before.size() <= options.packetsBefore;
       ++back) {
    if (llvm::Error error = source.packetAt(packet - back, seen, extra))
      return error;
    if (seen.device == device)
      report.before.insert(report.before.begin(), {packet - back, packetText(source, seen, extra)});
  }
  return llvm::Error::success();
}

llvm::Expected<BisectReport> bisectTape(TapeSource &source, const Endpoints &endpoints,
                                        const BisectOptions &options) {
  return Bisection(source, endpoints, options).run();
}

int exitCodeFor(const BisectReport &report) {
  switch (report.verdict) {
  case Verdict::Match: return 0;
  case Verdict::Divergence: return 1;
  case Verdict::Incomplete: return 5;
  case Verdict::Error: return 4;
  }
  return 4;
}

} // namespace tapeback
