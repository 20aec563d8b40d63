// How fast packets go into a tape and come out of it, and how soon a window in the middle of a large tape is
// there. Each figure stands beside the floor of the same run: copying the packets' 48 bytes.
//
//   format-bench --benchmark_format=json
//
// Files are made in the temporary directory and removed at the end.
#include "format/Failure.h"
#include "format/TapeReader.h"
#include "format/TapeWriter.h"

#include <benchmark/benchmark.h>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
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

enum Traffic { Registers, Ring, Random };

/// A driver's loop over a dozen registers; a command ring of 1,024 entries; or noise, the worst there is.
std::vector<Packet> traffic(Traffic kind, size_t count) {
  std::mt19937_64 random(1);
  std::vector<Packet> packets(count);
  uint64_t time = 1'000'000'000'000;
  for (size_t i = 0; i < count; ++i) {
    Packet &packet = packets[i];
    const uint64_t bits = random();
    time += 40 + 10 * (bits % 8);
    packet.issueTime = time;
    packet.completeTime = time + 300 + 10 * (bits >> 8 & 3);
    packet.width = 4;
    const uint64_t entry = i / 5, word = i % 5;
    const unsigned step = i % 12;
    switch (kind) {
    case Ring:
      packet.kind = word == 4 ? PacketKind::RegisterWrite : PacketKind::MemoryWrite;
      packet.width = word == 4 ? 4 : 8;
      packet.address = word == 4 ? 0x1000 : 0x100000 + entry % 1024 * 32 + word * 8;
      packet.value = word == 0   ? 0x40 + (bits >> 16 & 3)
                     : word == 1 ? 0x10000000 + (bits >> 40 & 0xffff) * 4096
                     : word == 2 ? (bits >> 18 & 15) * 64
                     : word == 3 ? entry
                                 : entry % 1024;
      break;
    case Registers:
      packet.kind = step % 3 == 0 ? PacketKind::RegisterWrite : PacketKind::RegisterRead;
      packet.address = 0x1000 + 4 * step;
      packet.value = step == 0   ? i / 12
                     : step == 3 ? bits >> 20 & 15
                     : step == 5 ? bits >> 24 & 1
                                 : 0x80 + step;
      break;
    case Random:
      packet.kind = PacketKind::RegisterRead;
      packet.address = 0x1000 + 4 * (bits >> 10 & 15);
      packet.value = random();
      packet.issueTime = time += bits >> 48;
      packet.completeTime = time + (bits >> 40 & 0xfff);
      break;
    }
  }
  return packets;
}

constexpr size_t packetCount = 2'000'000;

const std::vector<Packet> &packetsOf(Traffic kind) {
  static const std::vector<Packet> all[] = {traffic(Registers, packetCount), traffic(Ring, packetCount),
                                            traffic(Random, packetCount)};
  return all[kind];
}

/// In runs, as the collector has them.
void appendAll(TapeWriter &writer, Traffic kind) {
  for (llvm::ArrayRef<Packet> rest = packetsOf(kind); !rest.empty();
       rest = rest.drop_front(std::min<size_t>(rest.size(), 1000)))
    require(writer.append(rest.take_front(1000)));
}

uint64_t writeTape(const std::string &path, Traffic kind) {
  WriterOptions options;
  options.syncOnFinish = false; // The disk is not what is measured.
  auto writer = require(TapeWriter::create(path, Manifest(), options));
  appendAll(*writer, kind);
  require(writer->finish(Outcome()).takeError());
  return std::filesystem::file_size(path);
}

/// The floor: the packets' bytes, copied once.
void copyPackets(benchmark::State &state) {
  const std::vector<Packet> &packets = packetsOf(Registers);
  constexpr size_t block = 20'000;
  std::vector<Packet> to(block);
  for (auto _ : state)
    for (size_t i = 0; i + block <= packets.size(); i += block) {
      std::copy_n(packets.begin() + static_cast<std::ptrdiff_t>(i), block, to.begin());
      benchmark::ClobberMemory();
    }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * packets.size()));
}

void encode(benchmark::State &state, Traffic kind) {
  const std::string path = directory().file("encode.tape");
  packetsOf(kind);
  uint64_t bytes = 0;
  for (auto _ : state)
    bytes = writeTape(path, kind);
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * packetCount));
  state.counters["bytes_per_packet"] = double(bytes) / packetCount;
}

void decode(benchmark::State &state, Traffic kind) {
  const std::string path = directory().file("decode.tape");
  writeTape(path, kind);
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

void verify(benchmark::State &state, Traffic kind) {
  const std::string path = directory().file("verify.tape");
  writeTape(path, kind);
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

/// One gigabyte: some 70 million packets of noise, and register traffic between.
const std::string &largeTape() {
  static const std::string path = [] {
    const std::string name = directory().file("large.tape");
    WriterOptions options;
    options.syncOnFinish = false;
    auto writer = require(TapeWriter::create(name, Manifest(), options));
    while (writer->bytesWritten() < (1ull << 30))
      for (const Traffic kind : {Random, Random, Registers})
        appendAll(*writer, kind);
    require(writer->finish(Outcome()).takeError());
    return name;
  }();
  return path;
}

void openLarge(benchmark::State &state, bool cold) {
  const std::string &path = largeTape();
  PacketBatch batch;
  for (auto _ : state) {
    if (cold) {
      state.PauseTiming();
      const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
      ::fdatasync(fd);
      ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
      ::close(fd);
      state.ResumeTiming();
    }
    auto reader = require(TapeReader::open(path));
    require(reader->readWindow(reader->summary().windows / 2, batch));
    benchmark::DoNotOptimize(batch.packets.data());
  }
  state.counters["file_bytes"] = static_cast<double>(std::filesystem::file_size(path));
}

} // namespace

BENCHMARK(copyPackets)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, registers, Registers)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, ring, Ring)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, random, Random)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(decode, registers, Registers)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(decode, ring, Ring)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(decode, random, Random)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(verify, registers, Registers)->Unit(benchmark::kMillisecond);
BENCHMARK(encodeContents)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(openLarge, warm, false)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(openLarge, cold, true)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(20);

BENCHMARK_MAIN();
