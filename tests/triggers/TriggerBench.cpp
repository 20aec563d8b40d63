// What an armed trigger that does not fire costs: register traffic on 64 registers of one page, as the
// collector would show it, with 0 to 1000 triggers armed. Items are packets.
#include "triggers/Evaluator.h"
#include <benchmark/benchmark.h>
#include <cstdlib>
#include <random>

using namespace tapeback;
using namespace tapeback::triggers;

namespace {

constexpr unsigned registers = 64;

const Description &device() {
  static const Description description = [] {
    std::string text = "tapeback-description: 1\nname: bench\nspaces: [bar0]\nregisters:\n";
    for (unsigned i = 0; i < registers; ++i)
      text += "  - {name: R" + std::to_string(i) + ", offset: " + std::to_string(i * 4) + "}\n";
    llvm::Expected<Description> parsed = parseDescription(text, "bench");
    if (!parsed)
      std::abort();
    return std::move(*parsed);
  }();
  return description;
}

Program armed(int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i)
    text += "trigger t" + std::to_string(i) + " { when read R" + std::to_string(i % registers) +
            " && value == 0xdeadbeef { fire \"x\"; } }\n";
  CompileOptions options;
  options.devices.push_back({"", &device()});
  Compilation compilation = compileTriggers(text, options);
  if (!compilation.program)
    std::abort();
  return std::move(*compilation.program);
}

void notFiring(benchmark::State &state) {
  // A program must have a trigger; the first column is for one on a register that is never touched.
  Program program = state.range(0) ? armed(state.range(0)) : armed(1);
  unsigned used = state.range(0) ? registers : registers - 1, first = registers - used;
  Evaluator evaluator(program, {{"memory", "bar0"}, {1'000'000'000}});
  std::mt19937 random(1);
  std::vector<Packet> packets(65536);
  std::vector<const KeyFilter *> filters(registers * 2);
  std::vector<uint8_t> keys;
  for (Packet &packet : packets) {
    packet.kind = random() % 4 ? PacketKind::RegisterRead : PacketKind::RegisterWrite;
    packet.space = 1;
    packet.width = 4;
    packet.address = (first + random() % used) * 4;
    packet.value = random() % 1000;
    keys.push_back(uint8_t(packet.address / 4 * 2 + unsigned(packet.kind)));
    filters[keys.back()] = &evaluator.filterOf(packet);
  }
  PacketExtra none;
  auto fetch = [](BlobId) { return llvm::ArrayRef<uint8_t>(); };
  llvm::SmallVector<Output, 8> out;
  uint64_t ordinal = 0, time = 1000;
  for (auto _ : state) {
    for (size_t i = 0; i < packets.size(); ++i, ++ordinal) {
      Packet &packet = packets[i];
      packet.issueTime = packet.completeTime = time += 10;
      if (filters[keys[i]]->passes(packet.value))
        evaluator.packet(ordinal, packet, none, fetch, out);
      else
        evaluator.packetPassed(ordinal, packet.issueTime, packet.completeTime, out);
    }
    benchmark::DoNotOptimize(out.size());
  }
  if (!out.empty())
    std::abort();
  state.SetItemsProcessed(int64_t(state.iterations() * packets.size()));
}
BENCHMARK(notFiring)->Arg(0)->Arg(1)->Arg(10)->Arg(100)->Arg(1000);

} // namespace

BENCHMARK_MAIN();
