// What a replay would write, without any target: for --dry-run, and to refuse forbidden writes before the
// first one.
#include "replayer/Replay.h"
#include "llvm/ADT/STLExtras.h"

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
  return source.eachBlock(
      options.endPacket, [&](const PacketBatch &batch, size_t count) -> llvm::Expected<bool> {
        for (size_t i = 0; i < count; ++i) {
          const Packet &packet = batch.packets[i];
          if (!changesSomething(packet) || packet.device >= rules.size())
            continue;
          PlannedWrite write;
          write.packet = batch.firstOrdinal + i;
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
            write.forbidden = rule.forbidden != nullptr;
            if (rule.forbidden)
              write.forbiddenBy = *rule.forbidden;
            write.reg = rule.reg ? rule.reg->name : "";
          } else if (packet.kind != PacketKind::Reset) {
            write.space = "memory";
          }
          if (!each(write))
            return false;
        }
        return true;
      });
}

llvm::Error refuseForbiddenWrites(TapeSource &source, const ReplayOptions &options) {
  bool any = false;
  for (size_t i = 0; i < source.deviceCount(); ++i)
    if (const Description *description = source.description(uint16_t(i)))
      any |= !description->forbidden.empty() ||
             llvm::any_of(description->registers, [](const RegisterDescription &reg) {
               return reg.policy == ReplayPolicy::Forbidden;
             });
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
  return forbiddenWrite(found->forbiddenBy, found->packet);
}

} // namespace tapeback
