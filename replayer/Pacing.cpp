#include "replayer/Pacing.h"
#include "format/Failure.h"
#include "llvm/ADT/bit.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>

namespace tapeback {
namespace {

uint64_t scramble(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// From 0 up to, not including, 1.
double unit(uint64_t random) {
  return double(random >> 11) * 0x1p-53;
}

/// Everything that may be thrown at a device whose fault depends on timing: a gap is left out, kept, or
/// stretched or shrunk up to eightfold; where there was none, up to 10 us are put in.
double perturbed(double gap, uint64_t seed, uint64_t ordinal) {
  uint64_t random = scramble(seed ^ scramble(ordinal));
  double choice = unit(random), amount = unit(scramble(random));
  if (choice < 0.125)
    return 0;
  if (choice < 0.25)
    return gap + std::exp2(amount * 10) * 10;
  return gap * std::exp2(amount * 6 - 3);
}

} // namespace

llvm::Expected<PacingOptions> parsePacing(llvm::StringRef text) {
  PacingOptions options;
  auto bad = [&] {
    return failUsage("bad-option", "'" + text.str() + "' says nothing about time", "--timing",
                     "one of: fast, original, scale=X, stress, stress=SEED, scale=X,stress=SEED");
  };
  if (text == "fast")
    return options;
  options.paced = true;
  if (text == "original")
    return options;
  bool scaled = false;
  for (llvm::StringRef rest = text; !rest.empty() || rest.data() == text.data();) {
    auto [item, others] = rest.split(',');
    bool last = item.size() == rest.size();
    uint64_t seed = 1;
    if (item.consume_front("scale=")) {
      if (scaled || item.getAsDouble(options.scale) || !(options.scale >= 0) || options.scale > 1e6)
        return bad();
      scaled = true;
    } else if (item == "stress" || (item.consume_front("stress=") && !item.getAsInteger(0, seed))) {
      if (options.seed)
        return bad();
      options.seed = seed;
    } else {
      return bad();
    }
    if (last)
      return options;
    rest = others;
  }
  return bad();
}

std::string pacingText(const PacingOptions &options) {
  if (!options.paced)
    return "fast";
  std::string scale;
  if (options.scale != 1) {
    char text[32];
    std::snprintf(text, sizeof text, "scale=%g", options.scale);
    scale = text;
  }
  if (!options.seed)
    return scale.empty() ? "original" : scale;
  return scale + (scale.empty() ? "" : ",") + "stress=" + std::to_string(*options.seed);
}

//===- Histogram
//---------------------------------------------------------------------------------------------===//

unsigned GapHistogram::stepOf(uint64_t nanoseconds) {
  if (nanoseconds < 4)
    return unsigned(nanoseconds);
  unsigned power = unsigned(llvm::bit_width(nanoseconds)) - 1; // 2 to 63.
  return power * 4 - 4 + unsigned((nanoseconds >> (power - 2)) & 3);
}

uint64_t GapHistogram::endOf(unsigned step) {
  if (step < 4)
    return step;
  unsigned power = (step + 4) / 4;
  uint64_t width = uint64_t(1) << (power - 2);
  return (4 + step % 4) * width + (width - 1);
}

void GapHistogram::add(uint64_t nanoseconds) {
  ++steps[stepOf(nanoseconds)];
  ++total;
  largest = std::max(largest, nanoseconds);
}

uint64_t GapHistogram::quantile(double q) const {
  uint64_t wanted = uint64_t(std::ceil(q * double(total))), seen = 0;
  for (unsigned step = 0; step < steps.size() && total; ++step) {
    seen += steps[step];
    if (seen >= std::max<uint64_t>(1, wanted))
      return std::min(endOf(step), largest);
  }
  return 0;
}

//===- Pacer
//-------------------------------------------------------------------------------------------------===//

void Pacer::stretch(const PacketBatch &batch, llvm::ArrayRef<std::string> clocks) {
  // The last sample of the stretch before leads into this one.
  if (samples.size() > 1)
    samples.erase(samples.begin(), samples.end() - 1);
  segment = 0;
  for (const Packet &packet : batch.packets) {
    if (packet.kind != PacketKind::ClockSample || packet.clock >= clocks.size() ||
        clocks[packet.clock] != "device")
      continue;
    DeviceTimeSample sample{packet.issueTime, packet.value};
    if (samples.empty() || (sample.host > samples.back().host && sample.device >= samples.back().device))
      samples.push_back(sample);
    else if (sample.device < samples.back().device)
      samples.assign(1, sample); // The device's clock was reset: nothing before it counts.
  }
  tapeHasDevice |= samples.size() > 1;
}

uint64_t Pacer::hostNow() {
  return uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(
                      std::chrono::steady_clock::now().time_since_epoch())
                      .count());
}

/// Device nanoseconds that passed, when recorded, in a nanosecond of the host's.
double Pacer::rateAt(uint64_t host) {
  if (samples.size() < 2)
    return 1;
  while (segment + 2 < samples.size() && samples[segment + 1].host <= host)
    ++segment;
  const DeviceTimeSample &a = samples[segment], &b = samples[segment + 1];
  return double(b.device - a.device) / double(b.host - a.host);
}

uint64_t Pacer::gapOf(const Packet &packet, uint64_t ordinal, bool deviceTime) {
  double gap = packet.issueTime > returned ? double(packet.issueTime - returned) : 0;
  if (deviceTime)
    gap *= rateAt(packet.issueTime);
  gap *= options.scale;
  if (options.seed)
    gap = perturbed(gap, *options.seed, ordinal);
  if (gap > double(options.maxGap)) {
    ++cut;
    return options.maxGap;
  }
  return uint64_t(gap);
}

llvm::Error Pacer::before(Target &target, const Packet &packet, uint64_t ordinal) {
  if (!started) {
    started = true;
    onDevice = target.capabilities().deviceTime;
    return llvm::Error::success(); // Nothing came before it.
  }
  uint64_t gap = gapOf(packet, ordinal, onDevice && tapeHasDevice);
  wanted += gap;
  uint64_t now = 0;
  if (onDevice) {
    if (gap)
      if (llvm::Error error = target.advance(gap))
        return error;
    llvm::Expected<uint64_t> time = target.deviceTime();
    if (!time)
      return time.takeError();
    now = *time;
  } else {
    // Sleeping wakes up late: the end is watched for.
    constexpr uint64_t watched = 60'000;
    uint64_t due = returnedNow + gap;
    if (gap > 2 * watched)
      if (llvm::Error error = target.advance(gap - watched))
        return error;
    while ((now = hostNow()) < due)
      if (due - now > watched) { // Time is nothing to this target.
        timespec pause{time_t((due - now - watched) / 1'000'000'000),
                       long((due - now - watched) % 1'000'000'000)};
        ::nanosleep(&pause, nullptr);
      }
  }
  uint64_t achieved = now > returnedNow ? now - returnedNow : 0;
  errors.add(achieved > gap ? achieved - gap : gap - achieved);
  return llvm::Error::success();
}

llvm::Error Pacer::after(Target &target, const Packet &packet) {
  returned = std::max({returned, packet.issueTime, packet.completeTime});
  if (!onDevice) {
    returnedNow = hostNow();
    return llvm::Error::success();
  }
  llvm::Expected<uint64_t> time = target.deviceTime();
  if (!time)
    return time.takeError();
  returnedNow = *time;
  return llvm::Error::success();
}

PacingReport Pacer::report() const {
  PacingReport result;
  result.timing = pacingText(options);
  result.clock = onDevice ? "device" : "host";
  result.gaps = errors.count();
  result.wanted = wanted;
  result.p50 = errors.quantile(0.5);
  result.p99 = errors.quantile(0.99);
  result.max = errors.most();
  result.cut = cut;
  return result;
}

} // namespace tapeback
