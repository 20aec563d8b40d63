// What armed triggers that do not fire cost the collector: register traffic on 64 registers of one page,
// given to the product's own collector as the ring gives it, written to a tape. Throughput with 0 to 1,000
// triggers armed against a collector without an observer, in turns; each figure is the median of the rounds'
// ratios.
//
//   trigger-load [--rounds N] [--packets N]
//
// Prints one JSON object; figures are of processor time, so that a busy machine does not matter.
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

triggers::Program armed(unsigned count, const Description &device) {
  std::string text;
  for (unsigned i = 0; i < count; ++i)
    text += "trigger t" + std::to_string(i) + " { when read R" + std::to_string(i % registers) +
            " && value == 0xdeadbeef { fire \"x\"; } }\n";
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
              std::optional<unsigned> count, const std::string &path) {
  WriterOptions writing;
  writing.syncOnFinish = false;
  std::unique_ptr<TapeWriter> writer = require(TapeWriter::create(path, Manifest(), writing));
  std::optional<triggers::Program> program;
  if (count.value_or(0))
    program.emplace(armed(*count, device));
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

} // namespace

int main(int argc, char **argv) {
  uint64_t rounds = 7, packets = 2'000'000;
  for (int i = 1; i + 1 < argc; i += 2) {
    uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::string(argv[i]) == "--rounds" && value)
      rounds = value;
    else if (std::string(argv[i]) == "--packets" && value)
      packets = value;
    else
      giveUp("usage: trigger-load [--rounds N] [--packets N]");
  }
  test::ScratchDirectory scratch;
  std::string path = scratch.file("t.tape");
  Description device = require(parseDescription(describedAs(), "bench"));
  std::vector<ring::SlotCopy> accesses = traffic(packets);
  constexpr unsigned counts[] = {0, 1, 10, 100, 1000};
  std::vector<double> plain;
  std::vector<std::vector<double>> ratios(std::size(counts));
  record(accesses, device, std::nullopt, path); // Warms up.
  for (uint64_t round = 0; round < rounds; ++round)
    for (size_t i = 0; i < std::size(counts); ++i) {
      double without = record(accesses, device, std::nullopt, path);
      plain.push_back(without);
      ratios[i].push_back(without / record(accesses, device, counts[i], path));
    }
  llvm::json::Object result, curve;
  for (size_t i = 0; i < std::size(counts); ++i)
    curve[std::to_string(counts[i])] = std::round(median(ratios[i]) * 1000) / 1000;
  result["benchmark"] = "trigger-load";
  result["ns_per_packet_without"] = std::round(median(plain) * 1e10 / double(packets)) / 10;
  result["throughput_by_armed_triggers"] = std::move(curve);
  llvm::outs() << llvm::formatv("{0:2}", llvm::json::Value(std::move(result))) << "\n";
  return 0;
}
