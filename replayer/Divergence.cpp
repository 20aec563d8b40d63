#include "replayer/Divergence.h"
#include "format/MessageText.h"
#include "replayer/Commands.h"
#include "replayer/History.h"

namespace tapeback {

static std::string durationText(uint64_t nanoseconds) {
  if (nanoseconds >= 1'000'000'000 && nanoseconds % 100'000'000 == 0) {
    std::string tenths = std::to_string(nanoseconds / 100'000'000);
    return tenths.insert(tenths.size() - 1, ".") + " s";
  }
  if (nanoseconds >= 1'000'000)
    return std::to_string(nanoseconds / 1'000'000) + " ms";
  return std::to_string(nanoseconds) + " ns";
}

static bool usesMemory(PacketKind kind) {
  switch (kind) {
  case PacketKind::MemoryWrite:
  case PacketKind::MemoryRead:
  case PacketKind::MemoryWait:
  case PacketKind::Acquire:
  case PacketKind::Submit:
  case PacketKind::CommandDone:
  case PacketKind::DmaDescriptor:
  case PacketKind::DmaCompletion:
  case PacketKind::MemoryMap:
  case PacketKind::MemoryUnmap: return true;
  default: return false;
  }
}

static bool usesRegister(PacketKind kind) {
  return kind == PacketKind::RegisterRead || kind == PacketKind::RegisterWrite || kind == PacketKind::Poll ||
         kind == PacketKind::LateCompletion;
}

Divergence describeDivergence(const TapeSource &source, ComparisonContext context, const Packet &packet,
                              uint64_t ordinal, uint64_t window, const Comparison &comparison,
                              const VainWait *wait) {
  Divergence result;
  result.place.device = packet.device;
  result.place.thread = packet.thread;
  result.place.packet = ordinal;
  result.place.window = window;
  result.rule = comparison.rule;
  result.grade = gradeOf(comparison.rule);
  const char *kind = packetKindName(packet.kind);
  result.kind = kind ? kind : "unknown-" + std::to_string(unsigned(packet.kind));
  result.address = packet.address;
  result.prefix = packet.flags & Prefix;
  result.concurrent = packet.flags & Concurrent;
  if (wait)
    result.wait = *wait;
  bool memory = usesMemory(packet.kind) || (packet.kind == PacketKind::Oracle && packet.address);
  if (memory)
    result.space = "memory";
  else if (usesRegister(packet.kind))
    result.space = source.spaceName(packet.space);
  if (comparison.hasPlace) {
    result.offset = comparison.offset;
    result.expected = comparison.expected;
    result.actual = comparison.actual;
  }
  const Description *description = source.description(packet.device);
  if (usesRegister(packet.kind) && context.access && context.access->reg && description) {
    // The register and field of the first wrong byte: an access may span several.
    uint64_t wrong =
        comparison.hasPlace ? (comparison.expected ^ comparison.actual) & context.access->compareMask : 0;
    if (wait && comparison.hasPlace) // What is waited for is often what is not compared otherwise.
      wrong = (comparison.actual ^ wait->expected) & wait->mask;
    const RegisterDescription *reg =
        description->find(source.spaceName(packet.space), packet.address + result.offset.value_or(0), 1);
    if (!reg)
      reg = context.access->reg;
    result.reg = reg->name;
    if (wrong) {
      uint64_t inRegister = packet.address >= reg->offset
                                ? wrong << (8 * ((packet.address - reg->offset) & 7))
                                : wrong >> (8 * ((reg->offset - packet.address) & 7));
      result.field = description->fieldOf(*reg, inRegister);
    }
  }
  if (packet.kind == PacketKind::CounterSnapshot && context.counter)
    result.reg = context.counter->name;
  return result;
}

llvm::Error completePlace(TapeSource &source, PacketPlace &place) {
  // The packet itself counts: a write that starts an activity is a command, as in recorded signatures.
  llvm::Expected<std::unique_ptr<History>> history =
      History::before(source, place.device, place.packet + 1, /*contents=*/false);
  if (!history)
    return history.takeError();
  const ShadowState &state = (*history)->state();
  if (state.markerOccurrence()) {
    place.marker = state.marker();
    place.markerOccurrence = state.markerOccurrence();
  }
  place.command = state.commandsSinceMarker();
  llvm::Expected<std::string> text = commandText(source, place.packet);
  if (!text)
    return text.takeError();
  place.commandText = *text;
  return llvm::Error::success();
}

std::string divergenceText(const Divergence &d, llvm::StringRef expectedName, llvm::StringRef actualName) {
  std::string text = "window " + std::to_string(d.place.window) + ", packet " +
                     std::to_string(d.place.packet) + " (" + d.kind;
  if (!d.space.empty())
    text += " " + d.space;
  if (!d.reg.empty())
    text += " " + d.reg + (d.field.empty() ? "" : "." + d.field);
  if (d.address || !d.space.empty())
    text += " at " + hexText(d.address);
  text += ")";
  if (d.offset && d.space == "memory")
    text += ", byte " + std::to_string(*d.offset);
  text += ": ";
  if (d.expected && d.actual)
    text +=
        expectedName.str() + " " + hexText(*d.expected) + ", " + actualName.str() + " " + hexText(*d.actual);
  else
    text += ruleText(d.rule);
  if (d.wait)
    text += "; waited " + durationText(d.wait->deadline) + " for value & " + hexText(d.wait->mask) + " = " +
            hexText(d.wait->expected);
  if (!d.place.commandText.empty())
    text += " [" + d.place.commandText + "]";
  if (!d.failure.empty())
    text += ": " + d.failure;
  return text;
}

} // namespace tapeback
