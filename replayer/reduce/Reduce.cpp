#include "replayer/reduce/Reduce.h"
#include "format/Failure.h"
#include "replayer/Waiting.h"
#include "llvm/Support/xxhash.h"
#include <set>

namespace tapeback {
namespace {

/// Packets that go together.
using Unit = std::vector<uint32_t>;

class Reducing {
public:
  Reducing(const TapeImage &image, const Endpoints &endpoints, const ReduceOptions &options)
      : image(image), endpoints(endpoints), options(options), trial(options.trial) {}

  llvm::Expected<ReduceReport> run();

private:
  llvm::Error begin();
  llvm::Expected<bool> fails(const Selection &selection);
  llvm::Error byChunks(const char *stage, std::vector<Unit> units, bool untilMinimal);
  llvm::Error zeroContents();
  llvm::Error accept(Selection selection);
  std::vector<Unit> windowUnits() const;
  std::vector<Unit> commandUnits() const;
  std::vector<Unit> packetUnits() const;
  bool over();

  const TapeImage &image;
  const Endpoints &endpoints;
  const ReduceOptions &options;
  TrialOptions trial;
  ReduceReport report;
  Selection &best = report.selection;
  std::set<std::pair<uint64_t, uint64_t>> tried; ///< Candidates that do not fail in the same way.
  HostTimer timer;
};

bool Reducing::over() {
  if (!report.stopped.empty())
    return true;
  if (report.runs >= options.maxRuns)
    report.stopped = "after " + std::to_string(report.runs) + " runs, as asked";
  else if (options.maxSeconds && timer.elapsed() >= options.maxSeconds * 1'000'000'000)
    report.stopped = "after " + std::to_string(options.maxSeconds) + " s, as asked";
  else if (options.stop && options.stop())
    report.stopped = "interrupted";
  return !report.stopped.empty();
}

/// Which candidate a selection makes.
std::pair<uint64_t, uint64_t> identityOf(const Candidate &candidate) {
  std::vector<uint64_t> words;
  words.reserve(2 * candidate.packets.size());
  for (size_t i = 0; i < candidate.packets.size(); ++i) {
    words.push_back(candidate.original[i]);
    words.push_back(candidate.extras[i].payload.lo);
  }
  llvm::XXH128_hash_t hash = llvm::xxh3_128bits(
      llvm::ArrayRef(reinterpret_cast<const uint8_t *>(words.data()), words.size() * sizeof(uint64_t)));
  return {hash.high64, hash.low64};
}

llvm::Expected<bool> Reducing::fails(const Selection &selection) {
  Candidate candidate = makeCandidate(image, selection);
  std::pair<uint64_t, uint64_t> identity = identityOf(candidate);
  if (candidate.packets.empty() || tried.count(identity))
    return false;
  unsigned same = 0;
  for (unsigned i = 0;
       i < options.tries && same < options.needed && same + (options.tries - i) >= options.needed; ++i) {
    ++report.runs;
    llvm::Expected<TrialResult> result = tryCandidate(image, candidate, endpoints, trial);
    if (!result)
      return result.takeError();
    if (!result->divergence)
      continue;
    if (matchFailures(report.failure, failureKindOf(*result->divergence)) >= options.wanted)
      ++same;
    else
      ++report.differently;
  }
  if (same >= options.needed)
    return true;
  tried.insert(identity);
  return false;
}

llvm::Error Reducing::accept(Selection selection) {
  best = std::move(selection);
  return options.keep ? options.keep(best) : llvm::Error::success();
}

/// The whole tape, up to where the two part.
llvm::Error Reducing::begin() {
  best.kept.assign(image.packets.size(), true);
  for (size_t i = 0; i < image.packets.size(); ++i)
    best.kept[i] = !image.isEvidenceOnly(i);
  report.before = image.packets.size();
  HostTimer whole;
  for (unsigned i = 0; i < options.tries && !report.first.place.packet; ++i) {
    Candidate candidate = makeCandidate(image, best);
    ++report.runs;
    llvm::Expected<TrialResult> result = tryCandidate(image, candidate, endpoints, trial);
    if (!result)
      return result.takeError();
    if (result->goodFailure)
      return llvm::make_error<Failure>(*result->goodFailure);
    if (!result->divergence)
      continue;
    report.first = *result->divergence;
    report.first.place.packet = candidate.original[size_t(result->divergence->place.packet)];
    report.failure = failureKindOf(*result->divergence);
    for (size_t k = size_t(report.first.place.packet) + 1; k < best.kept.size(); ++k)
      best.kept[k] = false;
  }
  if (report.failure.what.empty())
    return failUsage("does-not-fail",
                     "the two targets do not differ on this tape: there is nothing to reduce", {},
                     options.tries > 1 ? "raise --tries" : "an intermittent failure needs --tries");
  trial.stopInVain = std::none_of(image.packets.begin(), image.packets.end(), [](const Packet &packet) {
    return packet.completion == Completion::TimedOut;
  });
  // A part of the tape that waits longer than much of it took waits for what is not there any more.
  uint64_t patience = std::max<uint64_t>(whole.elapsed() / 8, 50'000'000);
  trial.player.waits.maxHostTime = std::min(trial.player.waits.maxHostTime, patience);
  return llvm::Error::success();
}

/// Takes away ever smaller runs of units, the last ones first: what comes early is what the rest needs.
llvm::Error Reducing::byChunks(const char *stage, std::vector<Unit> units, bool untilMinimal) {
  uint64_t runsBefore = report.runs;
  for (size_t chunk = std::max<size_t>(units.size() / 2, 1);; chunk = std::max<size_t>(chunk / 2, 1)) {
    bool changed = false;
    for (size_t end = units.size(); end > 0 && !over();) {
      size_t first = end > chunk ? end - chunk : 0;
      Selection without = best;
      bool any = false;
      for (size_t u = first; u < end; ++u)
        for (uint32_t packet : units[u]) {
          any |= without.kept[packet];
          without.kept[packet] = false;
        }
      llvm::Expected<bool> same = any ? fails(without) : llvm::Expected<bool>(false);
      if (!same)
        return same.takeError();
      if (options.progress)
        options.progress(stage, report.runs, best.count());
      if (*same) {
        if (llvm::Error error = accept(std::move(without)))
          return error;
        changed = true;
      }
      if (*same || !any)
        units.erase(units.begin() + long(first), units.begin() + long(end));
      end = first;
    }
    if (over() || (chunk == 1 && !(changed && untilMinimal)))
      break;
  }
  report.stages.emplace_back(stage, report.runs - runsBefore);
  if (untilMinimal && report.stopped.empty())
    report.minimal = options.tries == 1;
  return llvm::Error::success();
}

std::vector<Unit> Reducing::windowUnits() const {
  std::vector<Unit> units;
  for (uint32_t i = 0; i < image.packets.size(); ++i) {
    if (units.empty() || image.windows[i] != image.windows[units.back().front()])
      units.emplace_back();
    units.back().push_back(i);
  }
  return units;
}

/// A command with all that is only there because of it; everything else stands alone.
std::vector<Unit> Reducing::commandUnits() const {
  std::map<uint32_t, size_t> unitOf; // By packet that others need.
  std::vector<Unit> units;
  for (uint32_t i = 0; i < image.packets.size(); ++i) {
    if (!best.kept[i])
      continue;
    uint32_t need = image.needs[i];
    auto found = need != TapeImage::none && need < i ? unitOf.find(need) : unitOf.end();
    size_t unit = found != unitOf.end() ? found->second : units.size();
    if (unit == units.size())
      units.emplace_back();
    units[unit].push_back(i);
    unitOf[i] = unit;
  }
  return units;
}

std::vector<Unit> Reducing::packetUnits() const {
  std::vector<Unit> units;
  for (uint32_t i = 0; i < image.packets.size(); ++i)
    if (best.kept[i] && image.fills[i] == TapeImage::none)
      units.push_back({i});
  return units;
}

/// Contents that do not matter become zero, whole or by halves.
llvm::Error Reducing::zeroContents() {
  uint64_t runsBefore = report.runs;
  for (uint32_t i = 0; i < image.packets.size() && !over(); ++i) {
    if (!best.kept[i] || image.packets[i].kind != PacketKind::MemoryWrite || !image.extras[i].payload)
      continue;
    llvm::Expected<llvm::ArrayRef<uint8_t>> content = image.source->reader().blob(image.extras[i].payload);
    if (!content)
      return content.takeError();
    std::vector<uint8_t> bytes(content->begin(), content->end());
    auto tryZero = [&](size_t from, size_t to) -> llvm::Expected<bool> {
      std::vector<uint8_t> zeroed = bytes;
      std::fill(zeroed.begin() + long(from), zeroed.begin() + long(to), uint8_t(0));
      if (zeroed == bytes)
        return true; // Zero as it is.
      Selection other = best;
      other.content[i] = zeroed;
      llvm::Expected<bool> same = fails(other);
      if (!same || !*same)
        return same;
      bytes = std::move(zeroed);
      if (llvm::Error error = accept(std::move(other)))
        return error;
      return true;
    };
    llvm::Expected<bool> whole = tryZero(0, bytes.size());
    if (!whole)
      return whole.takeError();
    for (size_t half = 0; !*whole && half < 2 && bytes.size() > 1 && !over(); ++half) {
      size_t middle = bytes.size() / 2;
      if (llvm::Expected<bool> part = tryZero(half ? middle : 0, half ? bytes.size() : middle); !part)
        return part.takeError();
    }
    if (options.progress)
      options.progress("zeroing", report.runs, best.count());
  }
  report.stages.emplace_back("zeroing", report.runs - runsBefore);
  return llvm::Error::success();
}

llvm::Expected<ReduceReport> Reducing::run() {
  if (llvm::Error error = begin())
    return error;
  report.stages.emplace_back("whole", report.runs);
  if (!options.plain) {
    if (llvm::Error error = byChunks("windows", windowUnits(), false))
      return error;
    if (llvm::Error error = byChunks("commands", commandUnits(), false))
      return error;
  }
  if (llvm::Error error = byChunks("packets", packetUnits(), true))
    return error;
  if (!options.plain)
    if (llvm::Error error = zeroContents())
      return error;
  report.after = makeCandidate(image, best).packets.size();
  return report;
}

} // namespace

llvm::Expected<ReduceReport> reduceTape(const TapeImage &image, const Endpoints &endpoints,
                                        const ReduceOptions &options) {
  return Reducing(image, endpoints, options).run();
}

} // namespace tapeback
