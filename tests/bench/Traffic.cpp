// Made once, in memory, so that making them is not measured.
#include "tests/bench/Traffic.h"

#include <random>

namespace tapeback::bench {

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
    case Traffic::Ring:
      packet.kind = word == 4 ? PacketKind::RegisterWrite : PacketKind::MemoryWrite;
      packet.width = word == 4 ? 4 : 8;
      packet.address = word == 4 ? 0x1000 : 0x100000 + entry % 1024 * 32 + word * 8;
      packet.value = word == 0   ? 0x40 + (bits >> 16 & 3)
                     : word == 1 ? 0x10000000 + (bits >> 40 & 0xffff) * 4096
                     : word == 2 ? (bits >> 18 & 15) * 64
                     : word == 3 ? entry
                                 : entry % 1024;
      break;
    case Traffic::Registers:
      packet.kind = step % 3 == 0 ? PacketKind::RegisterWrite : PacketKind::RegisterRead;
      packet.address = 0x1000 + 4 * step;
      packet.value = step == 0   ? i / 12
                     : step == 3 ? bits >> 20 & 15
                     : step == 5 ? bits >> 24 & 1
                                 : 0x80 + step;
      break;
    case Traffic::Random:
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

} // namespace tapeback::bench
