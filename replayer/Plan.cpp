// What a replay would write, without any target: for --dry-run, and to refuse forbidden writes before the
// first one.
#include "format/Failure.h"
#include "replayer/Replay.h"

namespace tapeback {
namespace {

bool changesSomething(const Packet &packet) {
  switch (packet.kind) {
  case PacketKind::RegisterWrite:
  case PacketKind::MemoryWrite:
  case PacketKind::Submit:
  case PacketKind::Reset:
  case PacketKind::MemoryMap:
  case PacketKind::MemoryUnmap: return true;
  default: return false;
  }
}

} // namespace

llvm::Error planWrites(TapeSource &source, const ReplayOptions &options,
                       llvm::function_ref<bool(const PlannedWrite &)> each) {
  std::vector<AccessRules> rules;
  for (size_t i = 0; i < source.deviceCount(); ++i)
    rules.emplace_back(source.description(uint16_t(i)), source.spaceNames(),
                       options.player.binding.allowRegisters);
  uint64_t end = std::min(source.reader().summary().packets, options.endPacket.value_or(~uint64_t(0)));
  PacketBatch batch;
  for (uint64_t position = 0; position < end; position += batch.packets.size()) {
    if (llvm::Error error = source.reader().readBlockFrom(position, batch))
      return error;
    if (batch.packets.empty())
      return failTape("short-tape", "the tape ends before its last packet",
                      "packet " + std::to_string(position));
    for (size_t i = 0; i < batch.packets.size() && position + i < end; ++i) {
      const Packet &packet = batch.packets[i];
      if (!changesSomething(packet) || packet.device >= rules.size())
        continue;
      PlannedWrite write;
      write.packet = position + i;
      write.device = packet.device;
      write.kind = packet.kind;
      write.address = packet.address;
      write.value = packet.value;
      write.length = batch.extra(packet).length;
      if (packet.kind == PacketKind::RegisterWrite) {
        const AccessRule &rule = rules[packet.device].find(packet.space, packet.address, packet.width);
        bool left = packet.completion == Completion::Pending && (rule.forbidden || rule.mayHang);
        if (left)
          continue; // Never came back, and is not tried again.
        write.space = source.spaceName(packet.space);
        if (isBusConfigurationSpace(source.description(packet.device), write.space))
          continue; // Never re-issued.
        write.length = packet.width;
        write.forbidden = rule.forbidden;
        write.reg = rule.reg ? rule.reg->name : "";
      } else if (packet.kind != PacketKind::Reset) {
        write.space = "memory";
      }
      if (!each(write))
        return llvm::Error::success();
    }
  }
  return llvm::Error::success();
}

llvm::Error refuseForbiddenWrites(TapeSource &source, const ReplayOptions &options) {
  bool any = false;
  for (size_t i = 0; i < source.deviceCount(); ++i)
    if (const Description *description = source.description(uint16_t(i)))
      for (const RegisterDescription &reg : description->registers)
        any |= reg.policy == ReplayPolicy::Forbidden;
  if (!any)
    return llvm::Error::success();
  std::optional<PlannedWrite> found;
  llvm::Error error = planWrites(source, options, [&](const PlannedWrite &write) {
    if (write.forbidden)
      found = write;
    return !found;
  });
  if (error || !found)
    return error;
  AccessRule rule;
  RegisterDescription reg;
  reg.name = found->reg;
  rule.reg = &reg;
  return forbiddenWrite(rule, found->packet);
}

} // namespace tapeback
