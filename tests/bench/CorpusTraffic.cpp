// Reads two kinds of log, as far as benchmarks need: who wants them as tapes uses `tapeback import`.
#include "tests/bench/CorpusTraffic.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>

namespace tapeback::bench {

namespace {

Packet accessAt(bool write, uint64_t address, uint64_t value, unsigned width) {
  Packet packet;
  packet.kind = write ? PacketKind::RegisterWrite : PacketKind::RegisterRead;
  packet.address = address;
  packet.value = value;
  packet.width = static_cast<uint8_t>(width);
  return packet;
}

/// "521,R,0x00000004,07130206": time since the line before in microseconds, what, where, value.
bool parseMali(const std::string &line, std::vector<Packet> &to) {
  uint64_t gap = 0, address = 0, value = 0;
  char what = 0;
  if (std::sscanf(line.c_str(), "%" SCNu64 ",%c,%" SCNx64 ",%" SCNx64, &gap, &what, &address, &value) != 4 ||
      (what != 'R' && what != 'W'))
    return false;
  to.push_back(accessAt(what == 'W', address, value, 4));
  return true;
}

/// "… vfio_region_read  (0000:09:00.0:region0+0x100, 4) = 0x10000000", and writes "(…+0x58c, 0x3437df0, 4)".
bool parseVfio(const std::string &line, std::vector<Packet> &to) {
  const size_t place = line.find(":region");
  const bool write = line.find("vfio_region_write") != std::string::npos;
  if (place == std::string::npos || (!write && line.find("vfio_region_read") == std::string::npos))
    return false;
  unsigned region = 0, width = 0;
  uint64_t address = 0, value = 0;
  const char *text = line.c_str() + place;
  const int got =
      write ? std::sscanf(text, ":region%u+%" SCNx64 ", %" SCNx64 ", %u)", &region, &address, &value, &width)
            : std::sscanf(text, ":region%u+%" SCNx64 ", %u) = %" SCNx64, &region, &address, &width, &value);
  if (got != 4 || (width != 1 && width != 2 && width != 4 && width != 8))
    return false;
  to.push_back(accessAt(write, address + (uint64_t(region) << 32), value, width));
  return true;
}

CorpusLog logOf(const char *name, const std::vector<std::string> &files,
                bool (*parse)(const std::string &, std::vector<Packet> &)) {
  CorpusLog log = {name, {}};
  for (const std::string &file : files) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);)
      parse(line, log.accesses);
  }
  return log;
}

} // namespace

std::vector<CorpusLog> corpusLogs() {
  const char *corpus = std::getenv("TAPEBACK_CORPUS");
  if (!corpus)
    return {};
  const std::string folder = corpus;
  std::vector<CorpusLog> logs = {logOf("mali", {folder + "/mali/mnist.gr_io_history"}, parseMali),
                                 logOf("vfio",
                                       {folder + "/vfio-trace/clarett_8prex_init_short.log",
                                        folder + "/vfio-trace/clarett_2pre_midi_rx.log",
                                        folder + "/vfio-trace/clarett_2pre_midi_tx.log"},
                                       parseVfio)};
  std::erase_if(logs, [](const CorpusLog &log) { return log.accesses.empty(); });
  return logs;
}

std::vector<Packet> mutatedTraffic(const CorpusLog &log, size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Packet> packets;
  packets.reserve(count);
  uint64_t time = 1'000'000'000'000;
  for (uint64_t pass = 0; packets.size() < count; ++pass) {
    for (const Packet &access : log.accesses) {
      const uint64_t bits = random();
      Packet packet = access;
      // What looks like the address of a buffer: it is somewhere else each time.
      if (packet.kind == PacketKind::RegisterWrite && packet.value >= 0x100000 && packet.value % 0x1000 == 0)
        packet.value += pass % 4096 * 0x1000;
      else if (bits % 16 == 0)
        packet.value ^= (bits >> 8 & 0xff) << (bits >> 16 & 0x18);
      // A read may be a poll that takes a few tries.
      const unsigned repeats =
          packet.kind == PacketKind::RegisterRead && bits >> 32 & 1 ? 1 + (bits >> 33 & 1) : 1;
      for (unsigned i = 0; i < repeats && packets.size() < count; ++i) {
        time += 40 + 10 * (random() % 8);
        packet.issueTime = time;
        packet.completeTime = time + 300 + 10 * (bits >> 40 & 3);
        packets.push_back(packet);
      }
    }
  }
  return packets;
}

} // namespace tapeback::bench
