#include "replayer/Needs.h"
#include "llvm/ADT/STLExtras.h"

namespace tapeback {

bool isBusConfigurationSpace(const Description *description, llvm::StringRef space) {
  return space == "config" && (!description || llvm::none_of(description->registers, [&](const auto &reg) {
           return reg.space == space;
         }));
}

llvm::Expected<std::vector<DeviceNeeds>> findNeeds(TapeSource &source, std::optional<uint64_t> endPacket) {
  std::vector<DeviceNeeds> needs(source.deviceCount());
  auto look = [&](const PacketBatch &batch, size_t count) -> llvm::Expected<bool> {
    for (size_t i = 0; i < count; ++i) {
      const Packet &packet = batch.packets[i];
      if (packet.device >= needs.size())
        continue; // Refused when it comes.
      DeviceNeeds &device = needs[packet.device];
      switch (packet.kind) {
      case PacketKind::RegisterRead:
      case PacketKind::RegisterWrite:
      case PacketKind::Poll:
        // A space that the tape's table does not have either is a matter of that packet.
        if (packet.origin != Origin::Recorder && packet.space < source.reader().spaces().size() &&
            !device.spaces.count(packet.space) &&
            !isBusConfigurationSpace(source.description(packet.device),
                                     source.reader().spaces()[packet.space]))
          device.spaces.emplace(packet.space, batch.firstOrdinal + i);
        break;
      case PacketKind::MemoryMap:
      case PacketKind::Submit:
        if (!device.memory)
          device.memory = batch.firstOrdinal + i;
        if (packet.kind == PacketKind::MemoryMap)
          device.extent.add(packet.address, batch.extra(packet).length);
        break;
      default: break;
      }
    }
    return true;
  };
  if (llvm::Error error = source.eachBlock(endPacket, look))
    return error;
  // What was mapped before the tape begins, or before the place that a replay starts from.
  for (uint64_t n = 0; n < source.reader().keyframeCount(); ++n) {
    llvm::Expected<Keyframe> keyframe = source.reader().keyframe(n);
    if (!keyframe)
      return keyframe.takeError();
    if (keyframe->device < needs.size())
      for (const KeyframeExtent &mapping : keyframe->mappings)
        needs[keyframe->device].extent.add(mapping.address, mapping.length);
  }
  return needs;
}

} // namespace tapeback
