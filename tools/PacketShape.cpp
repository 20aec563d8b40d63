#include "tools/PacketShape.h"
#include <iterator>

namespace tapeback {
namespace {

using S = KindShape;

constexpr KindShape shapes[] = {
    /* register-read */ {"address", "value", S::Space | S::Width},
    /* register-write */ {"address", "value", S::Space | S::Width},
    /* poll */ {"address", "value", S::Space | S::Width | S::Condition | S::Deadline | S::Count},
    /* memory-write */ {"address", nullptr, S::Space | S::Length | S::Rows | S::Payload},
    /* memory-read */ {"address", nullptr, S::Space | S::Length | S::Payload},
    /* memory-wait */ {"address", "value", S::Space | S::Width | S::Condition | S::Deadline},
    /* acquire */ {"address", nullptr, S::Space | S::Length | S::Payload},
    /* submit */ {"address", "queue", S::Space | S::Length | S::Payload},
    /* dma-descriptor */ {"address", "device_address", S::Space | S::Length | S::Rows | S::Link | S::Payload},
    /* dma-completion */ {"address", "device_address", S::Space | S::Length | S::Rows | S::Link | S::Payload},
    /* interrupt */ {"vector", nullptr, S::Deadline | S::Count},
    /* counter-snapshot */ {"counter", "value", 0},
    /* marker */ {nullptr, nullptr, S::Name},
    /* span-begin */ {nullptr, nullptr, S::Name},
    /* span-end */ {nullptr, nullptr, S::Link},
    /* clock-sample */ {nullptr, "value", 0},
    /* oracle */ {"address", "actual", S::Name | S::Condition | S::Length | S::Link | S::Count},
    /* reset */ {nullptr, "reset", 0},
    /* tick */ {nullptr, nullptr, 0},
    /* loss */ {"cause", "lost", 0},
    /* memory-map */ {"address", nullptr, S::Space | S::Length},
    /* memory-unmap */ {"address", nullptr, S::Space | S::Length},
    /* open */ {nullptr, nullptr, S::Name},
    /* close */ {nullptr, nullptr, 0},
    /* late-completion */ {nullptr, "value", S::Link},
    /* expectation */ {"address", nullptr, S::Space | S::Length | S::Payload},
    /* command-done */ {"address", "queue", S::Space | S::Length | S::Payload},
};
static_assert(std::size(shapes) == packetKindCount);
constexpr KindShape unknownShape = {"address", "value",
                                    S::Space | S::Width | S::Condition | S::Deadline | S::Length | S::Link |
                                        S::Count | S::Payload};

} // namespace

const KindShape &shapeOf(PacketKind kind) {
  return unsigned(kind) < packetKindCount ? shapes[unsigned(kind)] : unknownShape;
}

std::string kindText(PacketKind kind) {
  const char *name = packetKindName(kind);
  return name ? name : "unknown-" + std::to_string(unsigned(kind));
}

const char *completionText(Completion completion) {
  switch (completion) {
  case Completion::Done: return "done";
  case Completion::Pending: return "pending";
  case Completion::Failed: return "failed";
  case Completion::TimedOut: return "timed-out";
  }
  return "unknown";
}

const char *originText(Origin origin) {
  switch (origin) {
  case Origin::Program: return "program";
  case Origin::Recorder: return "recorder";
  case Origin::Imported: return "imported";
  }
  return "unknown";
}

const char *resetText(uint64_t kind) {
  constexpr const char *names[] = {"default", "function", "bus", "power"};
  return kind < std::size(names) ? names[kind] : "unknown";
}

uint8_t clockOfStamps(const Packet &packet) {
  return packet.kind == PacketKind::ClockSample ? 0 : packet.clock;
}

RowShape rowsOf(const PacketExtra &extra) {
  if (extra.count < 2 || extra.length % extra.count)
    return {1, extra.length, 0};
  return {extra.count, extra.length / extra.count, extra.expected};
}

SeenBits seenBits(const Packet &packet, const RegisterDescription &reg) {
  uint64_t before = packet.address - reg.offset;
  uint64_t mask = packet.width >= 8 ? ~uint64_t(0) : (uint64_t(1) << (8 * packet.width)) - 1;
  if (before >= 8)
    return {0, 0};
  return {packet.value << (8 * before), mask << (8 * before)};
}

} // namespace tapeback
