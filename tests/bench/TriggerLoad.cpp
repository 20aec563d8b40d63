// What armed triggers that do not fire cost the collector: register traffic on 64 registers of one page,
// given to the product's own collector as the ring gives it, written to a tape. Throughput with 0 to 1,000
// triggers armed against a collector without an observer, in turns; each figure is the median of the rounds'
// ratios. Two curves: triggers that wait for a value each (no two the same), and such that no value can be
// looked up for, so that each is evaluated at every read of its register.
//
//   trigger-load [--rounds N] [--packets N] [--check]
//
// Prints one JSON object; figures are of processor time, so that a busy machine matters little. With --check
// it exits 1 if the first curve is below what is asked.
#include "format/Failure.h"
#include "recorder/Collector.h"
#include "recorder/flight/LiveTriggers.h"
#include "tests/support/RunProgram.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <random>

using namespace tapeback;

namespace {

constexpr unsigned registers = 64;
constexpr unsigned counts[] = {0, 1, 10, 100, 1000};
constexpr double asked[] = {0.98, 0.8, 0.75, 0.7, 0.4};

[[noreturn]] void giveUp(const std::string &what) {
  llvm::errs() << "trigger-load: " << what << "\n";
  std::exit(1);
}
template <typename T>
T require(llvm::Expected<T> value) {
  if (!value)
    giveUp(toFailure(value.takeError()).message);
  return std::move(*value);
}

std::string describedAs() {
  std::string text = "tapeback-description: 1\nname: bench\nspaces: [bar0]\nregisters:\n";
  for (unsigned i = 0; i < registers; ++i)
    text += "  - {name: R" + std::to_string(i) + ", offset: " + std::to_string(i * 4) + "}\n";
  return text;
}

enum class Waits { ForValue, ForRange };

triggers::Program armed(unsigned count, Waits waits, const Description &device) {
  std::string text;
  for (unsigned i = 0; i < count; ++i)
    text += "trigger t" + std::to_string(i) + " { when read R" + std::to_string(i % registers) +
            " && value " + (waits == Waits::ForValue ? "== " : "> ") + std::to_string(100'000 + i * 977) +
            " { fire \"x\"; } }\n";
  triggers::CompileOptions options;
  options.devices.push_back({"bench", &device});
  return require(triggers::compileTriggersOrFail(text, "bench", options));
}

std::vector<ring::SlotCopy> traffic(uint64_t packets) {
  std::mt19937 random(1);
  std::vector<ring::SlotCopy> all(packets);
  uint64_t time = 1000;
  for (ring::SlotCopy &slot : all) {
    slot = {};
    slot.issue = time += 10;
    slot.complete = time += 10;
    slot.kind = uint8_t(random() % 4 ? PacketKind::RegisterRead : PacketKind::RegisterWrite);
    slot.width = 4;
    slot.space = 1;
    slot.thread = 1;
    slot.address = random() % registers * 4;
    slot.value = random() % 1000;
  }
  return all;
}

double processorSeconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return double(time.tv_sec) + double(time.tv_nsec) / 1e9;
}

/// Seconds to record the traffic. `count`: triggers armed; none: no observer.
double record(const std::vector<ring::SlotCopy> &accesses, const Description &device,
              std::optional<unsigned> count, Waits waits, const std::string &path) {
  WriterOptions writing;
  writing.syncOnFinish = false;
  std::unique_ptr<TapeWriter> writer = require(TapeWriter::create(path, Manifest(), writing));
  std::optional<triggers::Program> program;
  if (count.value_or(0))
    program.emplace(armed(*count, waits, device));
  LiveTriggerOptions watching;
  if (program)
    watching.files.push_back({"bench", &*program});
  watching.marks = writer.get();
  LiveTriggers live(watching);
  CollectorDevice facts;
  facts.alias = "bench";
  facts.uri = "null:";
  facts.descriptionText = describedAs();
  facts.description = require(parseDescription(facts.descriptionText, "bench"));
  CollectorOptions options;
  options.observer = count ? &live : nullptr;
  double start = processorSeconds();
  Collector collector(*writer, {facts}, options);
  static constexpr char spaces[] = "1\0bar0";
  ring::Record open = {};
  open.type = ring::RecordType::DeviceOpen;
  open.sequence = 1;
  collector.accept(open, llvm::ArrayRef<uint8_t>(reinterpret_cast<const uint8_t *>(spaces), sizeof spaces));
  llvm::ArrayRef<ring::SlotCopy> rest(accesses);
  uint64_t name = 2;
  while (!rest.empty()) {
    llvm::ArrayRef<ring::SlotCopy> batch = rest.take_front(512);
    collector.acceptAccesses(batch, name, false);
    name += batch.size();
    rest = rest.drop_front(batch.size());
  }
  TapeSummary summary = require(collector.finish({0, std::nullopt}));
  double seconds = processorSeconds() - start;
  if (summary.packets != accesses.size() + 1 || live.fired())
    giveUp("the tape is not what was given");
  return seconds;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// By number of armed triggers: the medians of the rounds' ratios.
std::vector<double> curve(const std::vector<ring::SlotCopy> &accesses, const Description &device, Waits waits,
                          uint64_t rounds, const std::string &path, std::vector<double> &plain) {
  std::vector<double> medians;
  for (unsigned count : counts) {
    std::vector<double> ratios;
    for (uint64_t round = 0; round < rounds; ++round) {
      // In turns, and who is first changes: what comes second finds a warmer cache.
      double with = round % 2 ? record(accesses, device, count, waits, path) : 0;
      double without = record(accesses, device, std::nullopt, waits, path);
      if (!with)
        with = record(accesses, device, count, waits, path);
      plain.push_back(without);
      ratios.push_back(without / with);
    }
    medians.push_back(median(std::move(ratios)));
  }
  return medians;
}

llvm::json::Object toJson(const std::vector<double> &medians) {
  llvm::json::Object object;
  for (size_t i = 0; i < medians.size(); ++i)
    object[std::to_string(counts[i])] = std::round(medians[i] * 1000) / 1000;
  return object;
}

} // namespace

int main(int argc, char **argv) {
  uint64_t rounds = 7, packets = 2'000'000;
  bool check = false;
  for (int i = 1; i < argc; ++i) {
    std::string option = argv[i];
    uint64_t value = i + 1 < argc ? std::strtoull(argv[i + 1], nullptr, 10) : 0;
    if (option == "--check")
      check = true;
    else if (option == "--rounds" && value)
      rounds = value, ++i;
    else if (option == "--packets" && value)
      packets = value, ++i;
    else
      giveUp("usage: trigger-load [--rounds N] [--packets N] [--check]");
  }
  test::ScratchDirectory scratch;
  std::string path = scratch.file("t.tape");
  Description device = require(parseDescription(describedAs(), "bench"));
  std::vector<ring::SlotCopy> accesses = traffic(packets);
  record(accesses, device, std::nullopt, Waits::ForValue, path); // Warms up.
  std::vector<double> plain;
  std::vector<double> values = curve(accesses, device, Waits::ForValue, rounds, path, plain);
  std::vector<double> ranges = curve(accesses, device, Waits::ForRange, rounds, path, plain);
  llvm::json::Object result;
  result["benchmark"] = "trigger-load";
  result["ns_per_packet_without"] = std::round(median(plain) * 1e10 / double(packets)) / 10;
  result["throughput_by_armed_triggers"] = toJson(values);
  result["the_same_where_no_value_can_be_looked_up"] = toJson(ranges);
  llvm::json::Object least;
  bool enough = true;
  for (size_t i = 0; i < std::size(counts); ++i) {
    least[std::to_string(counts[i])] = asked[i];
    enough &= values[i] >= asked[i];
  }
  result["asked"] = std::move(least);
  result["enough"] = enough;
  llvm::outs() << llvm::formatv("{0:2}", llvm::json::Value(std::move(result))) << "\n";
  return check && !enough ? 1 : 0;
}
