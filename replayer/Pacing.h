// When packets are issued: at once, or after the gaps that the recorded host had let pass.
//
// A gap is the time from the return of the operation before (of any thread) to the call of this one: what the
// host took, not what the device did. It passes on the device's own clock where the target has one (simulated
// devices), and is the recorded device's time where the tape knows that; otherwise on the host's.
#pragma once

#include "format/Packet.h"
#include "hal/Target.h"
#include "llvm/ADT/StringRef.h"
#include <array>
#include <string>
#include <vector>

namespace tapeback {

struct PacingOptions {
  bool paced = false;           ///< False: as fast as possible.
  double scale = 1;             ///< Of the recorded gaps.
  std::optional<uint64_t> seed; ///< Stress: gaps are stretched, shrunk and left out, as the seed says.
  uint64_t maxGap = 60'000'000'000;
};

/// "fast", "original", "scale=0.5", "stress", "stress=7", "scale=0.1,stress=7". Usage failure "bad-option".
llvm::Expected<PacingOptions> parsePacing(llvm::StringRef text);
std::string pacingText(const PacingOptions &options);

/// Counts of gap errors in steps of a quarter of a power of two. Allocates nothing.
class GapHistogram {
public:
  void add(uint64_t nanoseconds);
  uint64_t count() const { return total; }
  /// Upper end of the step that the quantile lies in; 0 of none.
  uint64_t quantile(double q) const;
  uint64_t most() const { return largest; }

private:
  static unsigned stepOf(uint64_t nanoseconds);
  static uint64_t endOf(unsigned step);
  std::array<uint64_t, 256> steps{};
  uint64_t total = 0, largest = 0;
};

/// For reports.
struct PacingReport {
  std::string timing = "fast";
  const char *clock = "host";         ///< "device": gaps were those of the device's clock.
  uint64_t gaps = 0;                  ///< Operations that were issued after a gap.
  uint64_t wanted = 0;                ///< Nanoseconds, all gaps together.
  uint64_t p50 = 0, p99 = 0, max = 0; ///< Of |achieved - wanted|, in nanoseconds.
  uint64_t cut = 0;                   ///< Gaps longer than maxGap.
  bool pinned = false;                ///< What was decoded was locked into memory, all of it.
  uint64_t stretches = 0;
};

/// What a clock sample of the device says: host time of the tape, device time.
struct DeviceTimeSample {
  uint64_t host, device;
};

/// One replay. One thread. Allocates in stretch() only.
class Pacer {
public:
  explicit Pacer(const PacingOptions &options) : options(options) {}

  /// The packets that come next: where the tape tells the device's time.
  void stretch(const PacketBatch &batch, llvm::ArrayRef<std::string> clocks);
  /// Lets the gap before the packet pass. Errors are the target's.
  llvm::Error before(Target &target, const Packet &packet, uint64_t ordinal);
  /// The packet was issued and has come back.
  llvm::Error after(Target &target, const Packet &packet);

  PacingReport report() const;

private:
  uint64_t gapOf(const Packet &packet, uint64_t ordinal, bool deviceTime);
  double rateAt(uint64_t host);
  static uint64_t hostNow();

  PacingOptions options;
  std::vector<DeviceTimeSample> samples;
  size_t segment = 0;
  bool started = false, onDevice = false, tapeHasDevice = false;
  uint64_t returned = 0;    ///< On the tape: the latest return so far.
  uint64_t returnedNow = 0; ///< The same in this run, on the clock that counts.
  uint64_t wanted = 0, cut = 0;
  GapHistogram errors;
};

} // namespace tapeback
