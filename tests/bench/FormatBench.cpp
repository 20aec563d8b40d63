// How fast packets and contents go into a tape, and packets come out of it. Each figure stands beside the
// floor of the same run: copying the packets' 48 bytes, or lz4 alone. TAPEBACK_CORPUS names a folder with
// logs of real devices. large-tape-bench has what depends on a tape's length.
//
//   format-bench --benchmark_format=json
//
// Files are made in the temporary directory and removed at the end.
#include "format/Failure.h"
#include "format/TapeReader.h"
#include "format/TapeWriter.h"
#include "tests/bench/CorpusTraffic.h"
#include "tests/bench/Traffic.h"

#include <benchmark/benchmark.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <lz4.h>
#include <random>
#include <unistd.h>

using namespace tapeback;

namespace {

/// A benchmark that cannot run has no figure.
void require(llvm::Error error) {
  if (!error)
    return;
  const Failure failure = toFailure(std::move(error));
  std::fprintf(stderr, "%s: %s [%s]\n", failure.code.c_str(), failure.message.c_str(), failure.where.c_str());
  std::exit(1);
}
template <typename T>
T require(llvm::Expected<T> value) {
  if (!value)
    require(value.takeError());
  return std::move(*value);
}

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
  std::string file(const char *name) const { return path + "/" + name; }

private:
  std::string path;
};

Directory &directory() {
  static Directory instance;
  return instance;
}

struct Workload {
  std::string name;
  std::vector<Packet> packets;
};

constexpr size_t packetCount = 2'000'000;

/// Made ones, and logs of real devices where there are some.
std::vector<Workload> workloads() {
  std::vector<Workload> all = {{"registers", bench::traffic(bench::Traffic::Registers, packetCount)},
                               {"ring", bench::traffic(bench::Traffic::Ring, packetCount)},
                               {"random", bench::traffic(bench::Traffic::Random, packetCount)}};
  const std::vector<bench::CorpusLog> logs = bench::corpusLogs();
  for (const bench::CorpusLog &log : logs)
    all.push_back({log.name, bench::mutatedTraffic(log, packetCount)});
  if (logs.empty())
    std::fprintf(stderr,
                 "skipped: logs of real devices (TAPEBACK_CORPUS does not name a folder that has them)\n");
  return all;
}

/// In runs, as the collector has them.
void appendAll(TapeWriter &writer, llvm::ArrayRef<Packet> packets) {
  for (llvm::ArrayRef<Packet> rest = packets; !rest.empty();
       rest = rest.drop_front(std::min<size_t>(rest.size(), 1000)))
    require(writer.append(rest.take_front(1000)));
}

uint64_t writeTape(const std::string &path, const Workload &workload) {
  WriterOptions options;
  options.syncOnFinish = false; // The disk is not what is measured.
  auto writer = require(TapeWriter::create(path, Manifest(), options));
  appendAll(*writer, workload.packets);
  require(writer->finish(Outcome()).takeError());
  return std::filesystem::file_size(path);
}

/// The floor: the packets' bytes, copied once.
void copyPackets(benchmark::State &state, const std::vector<Packet> &packets) {
  constexpr size_t block = 20'000;
  std::vector<Packet> to(block);
  for (auto _ : state)
    for (size_t i = 0; i + block <= packets.size(); i += block) {
      std::copy_n(packets.begin() + static_cast<std::ptrdiff_t>(i), block, to.begin());
      benchmark::ClobberMemory();
    }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * packets.size()));
}

void encode(benchmark::State &state, const Workload &workload) {
  const std::string path = directory().file("encode.tape");
  uint64_t bytes = 0;
  for (auto _ : state)
    bytes = writeTape(path, workload);
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * packetCount));
  state.counters["bytes_per_packet"] = double(bytes) / packetCount;
}

void decode(benchmark::State &state, const Workload &workload) {
  const std::string path = directory().file("decode.tape");
  writeTape(path, workload);
  PacketBatch batch;
  for (auto _ : state) {
    auto reader = require(TapeReader::open(path));
    uint64_t read = 0;
    do {
      require(reader->readBlockFrom(read, batch));
      read += batch.packets.size();
    } while (!batch.packets.empty());
    if (read != packetCount)
      state.SkipWithError("packets are missing");
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * packetCount));
}

void verify(benchmark::State &state, const Workload &workload) {
  const std::string path = directory().file("verify.tape");
  writeTape(path, workload);
  for (auto _ : state)
    require(verifyTape(path).takeError());
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * packetCount));
}

/// Contents of 4 KiB, half of them new: what a tape of memory writes costs.
void encodeContents(benchmark::State &state) {
  const std::string path = directory().file("contents.tape");
  constexpr size_t pages = 20'000, page = 4096;
  std::mt19937_64 random(2);
  std::vector<uint8_t> memory(pages / 2 * page);
  for (size_t i = 0; i < memory.size(); i += 8) {
    const uint64_t word = i % 64 == 0 ? random() : i >> 12;
    std::copy_n(reinterpret_cast<const uint8_t *>(&word), 8, memory.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (auto _ : state) {
    WriterOptions options;
    options.syncOnFinish = false;
    auto writer = require(TapeWriter::create(path, Manifest(), options));
    for (size_t i = 0; i < pages; ++i) {
      PacketExtra extra;
      extra.payload = require(writer->blob({memory.data() + i / 2 * page, page}));
      extra.length = page;
      Packet packet;
      packet.kind = PacketKind::MemoryWrite;
      packet.address = i * page;
      require(writer->append(packet, extra));
    }
    require(writer->finish(Outcome()).takeError());
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * pages * page));
}

/// New contents of 64 KiB: half of the one kind are repetitions, the other is noise.
const std::vector<std::vector<uint8_t>> &contentsOf(bool compressible) {
  static const auto make = [](bool repeats) {
    std::mt19937_64 random(3);
    std::vector<std::vector<uint8_t>> contents(512, std::vector<uint8_t>(64 << 10));
    for (auto &content : contents)
      for (size_t i = 0; i < content.size(); i += 8) {
        const uint64_t word = repeats && i % 64 ? (i >> 3) & 0xff : random();
        std::memcpy(content.data() + i, &word, 8);
      }
    return contents;
  };
  static const auto text = make(true), noise = make(false);
  return compressible ? text : noise;
}

/// The floor of a compressible content.
void lz4Alone(benchmark::State &state) {
  const auto &contents = contentsOf(true);
  std::vector<char> out(static_cast<size_t>(LZ4_compressBound(64 << 10)));
  size_t stored = 0;
  for (auto _ : state) {
    stored = 0;
    for (const auto &content : contents)
      stored += static_cast<size_t>(LZ4_compress_default(reinterpret_cast<const char *>(content.data()),
                                                         out.data(), static_cast<int>(content.size()),
                                                         static_cast<int>(out.size())));
  }
  const size_t bytes = contents.size() * contents[0].size();
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * bytes));
  state.counters["ratio"] = double(bytes) / double(stored);
}

void storeContents(benchmark::State &state, bool compressible, bool again) {
  const auto &contents = contentsOf(compressible);
  const size_t bytes = contents.size() * contents[0].size();
  uint64_t stored = 0;
  for (auto _ : state) {
    state.PauseTiming();
    auto writer = require(TapeWriter::create(directory().file("contents.tape"), Manifest()));
    if (again)
      for (const auto &content : contents)
        require(writer->blob(content).takeError());
    state.ResumeTiming();
    for (const auto &content : contents)
      require(writer->blob(content).takeError());
    require(writer->flush());
    state.PauseTiming();
    stored = writer->bytesWritten();
    writer->discard();
    state.ResumeTiming();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * bytes));
  state.counters["ratio"] = double(bytes) / double(stored);
}

} // namespace

int main(int argc, char **argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv))
    return 1;
  const std::vector<Workload> all = workloads();
  auto add = [](const std::string &name, auto run) {
    benchmark::RegisterBenchmark(name.c_str(), run)->Unit(benchmark::kMillisecond)->UseRealTime();
  };
  add("copyPackets", [&](benchmark::State &state) { copyPackets(state, all[0].packets); });
  for (const Workload &workload : all) {
    add("encode/" + workload.name, [&](benchmark::State &state) { encode(state, workload); });
    add("decode/" + workload.name, [&](benchmark::State &state) { decode(state, workload); });
    add("verify/" + workload.name, [&](benchmark::State &state) { verify(state, workload); });
  }
  add("encodeContents", encodeContents);
  add("lz4Alone", lz4Alone);
  add("storeContents/compressible", [](benchmark::State &state) { storeContents(state, true, false); });
  add("storeContents/noise", [](benchmark::State &state) { storeContents(state, false, false); });
  add("storeContents/unchanged", [](benchmark::State &state) { storeContents(state, false, true); });
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
