// How fast captures become tapes: bytes of text a second, file to file, on one core. Beside it the floor of
// the same run: finding the line ends of the same text, and how many times as long importing takes.
//
//   import-bench --benchmark_format=json
#include "format/Failure.h"
#include "recorder/import/Import.h"

#include <benchmark/benchmark.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>

using namespace tapeback;

namespace {

constexpr size_t textBytes = 64u << 20;

class Directory {
public:
  Directory() {
    std::string name = (std::filesystem::temp_directory_path() / "tapeback-bench-XXXXXX").string();
    if (!::mkdtemp(name.data()))
      std::exit(1);
    path = name;
  }
  ~Directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

constexpr char waveHead[] =
    "$timescale 1 ns $end\n$scope module top $end\n$var wire 1 ! aclk $end\n"
    "$var wire 1 a s_awvalid $end $var wire 1 b s_awready $end $var wire 16 c s_awaddr $end\n"
    "$var wire 1 d s_wvalid $end $var wire 1 e s_wready $end $var wire 32 f s_wdata $end\n"
    "$var wire 1 h s_bvalid $end $var wire 1 i s_bready $end\n"
    "$upscope $end\n$enddefinitions $end\n#0\n0! 0a 0d 0h 1b 1e 1i\n";

/// A write of AXI-Lite in two cycles: address and data, then the answer.
std::string waveOf(uint64_t number, unsigned offset, unsigned value) {
  std::string text = number ? std::string() : std::string(waveHead);
  auto bits = [](uint64_t of) {
    std::string digits;
    for (unsigned bit = 32; bit--;)
      if (!digits.empty() || of >> bit & 1)
        digits += of >> bit & 1 ? '1' : '0';
    return "b" + (digits.empty() ? std::string("0") : digits);
  };
  auto time = [&](unsigned step) { return "#" + std::to_string(number * 20 + step) + "\n"; };
  text += time(1) + "1a\n1d\n" + bits(offset) + " c\n" + bits(value) + " f\n" + time(5) + "1!\n";
  text += time(6) + "0a\n0d\n" + time(10) + "0!\n1h\n" + time(15) + "1!\n" + time(16) + "0h\n" + time(19) +
          "0!\n";
  return text;
}

std::string lineOf(const std::string &kind, std::mt19937_64 &random, uint64_t number) {
  char line[384];
  unsigned offset = unsigned(random() % 64) * 4, value = unsigned(random() % (1u << 20));
  unsigned long long us = number * 17;
  bool write = random() % 3 == 0;
  if (kind == "mmiotrace")
    std::snprintf(line, sizeof line, "%c 4 %llu.%06llu 1 0x%x 0x%x 0x0 0\n", write ? 'W' : 'R', us / 1000000,
                  us % 1000000, 0x90000000 + offset, value);
  else if (kind == "vfio-trace" && write)
    std::snprintf(line, sizeof line,
                  "7@%llu.%06llu:vfio_region_write  (0000:09:00.0:region0+0x%x, 0x%x, 4)\n", us / 1000000,
                  us % 1000000, offset, value);
  else if (kind == "vfio-trace")
    std::snprintf(line, sizeof line,
                  "7@%llu.%06llu:vfio_region_read  (0000:09:00.0:region0+0x%x, 4) = 0x%x\n", us / 1000000,
                  us % 1000000, offset, value);
  else if (kind == "mali-log")
    std::snprintf(line, sizeof line, "%u,%c,0x%08x,%08x\n", unsigned(random() % 600), write ? 'W' : 'R',
                  offset, value);
  else if (kind == "nvdla-cfg")
    std::snprintf(line, sizeof line, "reg_write(NVDLA_CSC.D_MISC_CFG_%u, 0x%x); // step %u\n", offset, value,
                  unsigned(number));
  else if (kind == "nvme-trace")
    std::snprintf(
        line, sizeof line,
        "   fio-3549    [000] .....   %llu.%06llu: nvme_setup_cmd: nvme0: disk=nvme0n1, qid=2, cmdid=%u, "
        "nsid=1, flags=0x0, meta=0x0, cmd=(nvme_cmd_read slba=%u, len=7)\n"
        "   <idle>-0    [000] d.h..   %llu.%06llu: nvme_complete_rq: nvme0: disk=nvme0n1, qid=2, cmdid=%u, "
        "res=0x0, retries=0, flags=0x0, status=0x0\n",
        us / 1000000, us % 1000000, unsigned(number % 1024), value, us / 1000000, us % 1000000,
        unsigned(number % 1024));
  else if (kind == "vcd")
    return waveOf(number, offset, value);
  else if (kind == "nvdla-txn")
    std::snprintf(line, sizeof line, "write_reg 0xffff%04x 0x%x #NVDLA_REGISTER_%u\n", offset, value, offset);
  else
    std::snprintf(line, sizeof line, "[R +%llu.%06llu] writel 0x%x 0x%x\n[S +%llu.%06llu] OK\n", us / 1000000,
                  us % 1000000, 0xe0000000 + offset, value, us / 1000000, us % 1000000);
  return line;
}

/// The path of a capture of that kind, made once.
const std::string &capture(const std::string &kind) {
  static Directory directory;
  static std::map<std::string, std::string> made;
  std::string &path = made[kind];
  if (path.empty()) {
    path = directory.path + "/" + kind;
    std::mt19937_64 random(1);
    std::string text;
    for (uint64_t number = 0; text.size() < textBytes; ++number)
      text += lineOf(kind, random, number);
    std::ofstream(path, std::ios::binary) << text;
  }
  return path;
}

/// Looks for the line ends; how many there are.
uint64_t countLines(const std::string &text) {
  uint64_t lines = 0;
  for (const char *at = text.data(), *end = at + text.size(); at != end; ++lines) {
    const auto *newline = static_cast<const char *>(std::memchr(at, '\n', size_t(end - at)));
    at = newline ? newline + 1 : end;
  }
  return lines;
}

std::string textOf(const char *kind) {
  std::ifstream file(capture(kind), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Of all threads: on one core, that is how long it takes.
double processorSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

void importing(benchmark::State &state, const char *kind) {
  std::string text = textOf(kind);
  const size_t size = text.size();
  double floorSeconds = 1e9;
  for (unsigned i = 0; i < 3; ++i) {
    const double start = processorSeconds();
    benchmark::DoNotOptimize(countLines(text));
    floorSeconds = std::min(floorSeconds, processorSeconds() - start);
  }
  text = {};
  ImportOptions options;
  options.kind = kind;
  options.files = {capture(kind)};
  options.output = capture(kind) + ".tape";
  options.writer.syncOnFinish = false;
  uint64_t bytes = 0, lines = 0;
  const double start = processorSeconds();
  for (auto _ : state) {
    ImportReport report;
    if (llvm::Error error = importCapture(options, report)) {
      state.SkipWithError(toFailure(std::move(error)).message.c_str());
      return;
    }
    bytes += report.bytes;
    lines += report.lines;
  }
  const double seconds = processorSeconds() - start;
  state.SetBytesProcessed(int64_t(bytes));
  state.counters["ns_a_line"] = seconds * 1e9 / double(lines);
  state.counters["floors"] = seconds / double(bytes) / (floorSeconds / double(size));
}

void lineEnds(benchmark::State &state, const char *kind) {
  const std::string text = textOf(kind);
  uint64_t bytes = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(countLines(text));
    bytes += text.size();
  }
  state.SetBytesProcessed(int64_t(bytes));
}

} // namespace

BENCHMARK_CAPTURE(lineEnds, floor, "mmiotrace")->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(importing, mmiotrace, "mmiotrace")->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(importing, vfio_trace, "vfio-trace")
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(importing, mali_log, "mali-log")->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(importing, nvdla_txn, "nvdla-txn")->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(importing, nvdla_cfg, "nvdla-cfg")->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(importing, nvme_trace, "nvme-trace")
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(importing, vcd, "vcd")->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(importing, qtest, "qtest")->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();

BENCHMARK_MAIN();
