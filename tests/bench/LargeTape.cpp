// How soon a large tape's first packet is there, and any window after that; and what memory reading takes.
//
//   large-tape-bench [--gigabytes N]
//
// Makes a tape of 10 GB (decimal) in the temporary directory, with a program of its own so that the writer's
// memory does not count, drops it from the page cache, and removes it at the end. Prints one JSON object. Not
// for CI: it needs the room, and minutes.
#include "format/Failure.h"
#include "format/TapeReader.h"
#include "format/TapeWriter.h"
#include "tests/bench/Clock.h"
#include "tests/bench/Traffic.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <random>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace tapeback;
using namespace tapeback::bench;

namespace {

/// What must not fail, or there is no figure.
void need(llvm::Error error) {
  if (!error)
    return;
  const Failure failure = toFailure(std::move(error));
  std::fprintf(stderr, "%s: %s [%s]\n", failure.code.c_str(), failure.message.c_str(), failure.where.c_str());
  std::_Exit(1);
}
template <typename T>
T need(llvm::Expected<T> value) {
  if (!value)
    need(value.takeError());
  return std::move(*value);
}

/// Peak memory of this process so far.
double megabytesUsed() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return double(usage.ru_maxrss) / 1024;
}

/// Noise, the worst there is, and register traffic between.
void makeTape(const std::string &path, uint64_t bytes) {
  const std::vector<Packet> noise = traffic(Traffic::Random, 2'000'000),
                            registers = traffic(Traffic::Registers, 2'000'000);
  const uint64_t start = nanoseconds();
  auto writer = need(TapeWriter::create(path, Manifest()));
  while (writer->bytesWritten() < bytes)
    for (const std::vector<Packet> *packets : {&noise, &registers})
      for (llvm::ArrayRef<Packet> rest = *packets; !rest.empty(); rest = rest.drop_front(1000))
        need(writer->append(rest.take_front(1000)));
  const uint64_t packets = writer->packetCount();
  need(writer->finish(Outcome()).takeError());
  const double seconds = double(nanoseconds() - start) / 1e9;
  std::printf(
      "  \"made\": {\"seconds\": %.1f, \"packets\": %llu, \"mpps\": %.1f, \"megabytes_of_memory\": %.0f},\n",
      seconds, static_cast<unsigned long long>(packets), double(packets) / seconds / 1e6, megabytesUsed());
}

void forgetPages(const std::string &path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 || ::fdatasync(fd) != 0 || ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
    std::perror("large-tape-bench: cannot drop the tape from the page cache");
  if (fd >= 0)
    ::close(fd);
}

struct Spread {
  std::vector<double> milliseconds;
  void print(const char *name) {
    std::sort(milliseconds.begin(), milliseconds.end());
    std::printf("  \"%s\": {\"median_ms\": %.3f, \"p99_ms\": %.3f, \"max_ms\": %.3f},\n", name,
                milliseconds[milliseconds.size() / 2], milliseconds[milliseconds.size() * 99 / 100],
                milliseconds.back());
  }
};

/// Opens it anew each time. Cold: nothing of it is in the page cache, so the disk counts.
void measureOpening(const std::string &path, bool cold) {
  Spread first;
  PacketBatch batch;
  for (int round = 0; round < (cold ? 10 : 50); ++round) {
    if (cold)
      forgetPages(path);
    const uint64_t start = nanoseconds();
    auto reader = need(TapeReader::open(path));
    need(reader->readPackets(0, 1, batch));
    first.milliseconds.push_back(double(nanoseconds() - start) / 1e6);
  }
  first.print(cold ? "open_to_first_packet_cold" : "open_to_first_packet");
}

void measureWindows(const std::string &path, bool cold) {
  Spread windows;
  PacketBatch batch;
  std::mt19937_64 random(1);
  auto reader = need(TapeReader::open(path));
  if (cold)
    forgetPages(path);
  for (int round = 0; round < 500; ++round) {
    const uint64_t n = random() % reader->summary().windows;
    const uint64_t start = nanoseconds();
    need(reader->readWindow(n, batch));
    windows.milliseconds.push_back(double(nanoseconds() - start) / 1e6);
  }
  windows.print(cold ? "any_window_cold" : "any_window");
}

void measureReading(const std::string &path) {
  PacketBatch batch;
  const uint64_t start = nanoseconds();
  auto reader = need(TapeReader::open(path));
  uint64_t read = 0;
  do {
    need(reader->readBlockFrom(read, batch));
    read += batch.packets.size();
  } while (!batch.packets.empty());
  const double seconds = double(nanoseconds() - start) / 1e9;
  std::printf("  \"in_order\": {\"seconds\": %.1f, \"mpps\": %.1f, \"megabytes_of_memory\": %.0f}\n", seconds,
              double(read) / seconds / 1e6, megabytesUsed());
}

/// In a process of its own.
template <typename F>
bool apart(F work) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    std::fflush(stdout);
    std::_Exit(0);
  }
  int status = 0;
  return child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
}

} // namespace

int main(int argc, char **argv) {
  double gigabytes = 10;
  if (argc == 3 && std::strcmp(argv[1], "--gigabytes") == 0)
    gigabytes = std::strtod(argv[2], nullptr);
  if ((argc != 1 && argc != 3) || !(gigabytes > 0)) {
    std::fprintf(stderr, "usage: large-tape-bench [--gigabytes N]\n");
    return 2;
  }
  std::string folder = (std::filesystem::temp_directory_path() / "tapeback-large-XXXXXX").string();
  if (!::mkdtemp(folder.data())) {
    std::perror("large-tape-bench: cannot make a directory");
    return 1;
  }
  const std::string path = folder + "/large.tape";
  std::printf("{\n  \"benchmark\": \"large-tape\",\n");
  bool done = apart([&] { makeTape(path, static_cast<uint64_t>(gigabytes * 1e9)); });
  if (done) {
    std::printf("  \"bytes\": %llu,\n", static_cast<unsigned long long>(std::filesystem::file_size(path)));
    done = apart([&] {
      for (const bool cold : {true, false})
        measureOpening(path, cold);
      for (const bool cold : {true, false})
        measureWindows(path, cold);
      std::printf("  \"megabytes_of_memory\": %.0f,\n", megabytesUsed());
    });
    done = done && apart([&] { measureReading(path); });
  }
  std::printf("}\n");
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return done ? 0 : 1;
}
