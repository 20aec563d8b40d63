#include "replayer/StartState.h"
#include "format/Failure.h"
#include "hal/TargetTypes.h"

namespace tapeback {
namespace {

bool saysSomething(const Keyframe &keyframe) {
  return !keyframe.registers.empty() || !keyframe.memory.empty() || !keyframe.mappings.empty() ||
         !keyframe.internal.empty();
}

} // namespace

llvm::Expected<StartState> findStartState(TapeSource &source, bool fromReset) {
  constexpr uint64_t headPackets = 256;
  StartState start;
  TapeReader &reader = source.reader();
  // What the recording did decides; a tape that does not tell is brought to where the description's reset
  // values hold.
  for (size_t device = 0; device < source.deviceCount(); ++device) {
    const Description *description = source.description(uint16_t(device));
    llvm::StringRef method = description ? llvm::StringRef(description->resetMethod) : "";
    ResetKind kind = method == "function" ? ResetKind::Function
                     : method == "bus"    ? ResetKind::Bus
                     : method == "power"  ? ResetKind::Power
                                          : ResetKind::Default;
    start.resetKinds.push_back(uint8_t(kind));
  }
  std::vector<bool> seen(source.deviceCount());
  PacketBatch head;
  if (uint64_t total = reader.summary().packets)
    if (llvm::Error error = reader.readPackets(0, std::min(headPackets, total), head))
      return error;
  for (const Packet &packet : head.packets) {
    if (packet.device >= source.deviceCount())
      continue;
    if (packet.kind == PacketKind::Loss && packet.address == uint64_t(LossCause::NotRecording) &&
        (&packet == head.packets.data() || !seen[packet.device]))
      start.lateStart = true;
    if (packet.kind == PacketKind::Reset && !seen[packet.device] &&
        packet.value <= uint64_t(ResetKind::Power))
      start.resetKinds[packet.device] = uint8_t(packet.value);
    // Only what comes before the device is used tells how it was brought to the start.
    if (packet.kind != PacketKind::Open && packet.kind != PacketKind::Loss &&
        packet.kind != PacketKind::Marker)
      seen[packet.device] = true;
  }
  std::string reason;
  for (uint64_t n = 0; n < reader.keyframeCount(); ++n) {
    llvm::Expected<Keyframe> keyframe = reader.keyframe(n);
    if (!keyframe)
      return keyframe.takeError();
    if (keyframe->packet > 0)
      break;
    if (!keyframe->restorable && (start.lateStart || saysSomething(*keyframe)))
      reason += (reason.empty() ? "" : "; ") + keyframe->reason;
    if (saysSomething(*keyframe))
      start.keyframes.push_back(std::move(*keyframe));
  }
  if (reason.empty() && start.lateStart && start.keyframes.empty())
    reason =
        "packets before the first were not recorded, and there is no keyframe of the state that they left";
  if (reason.empty())
    return start;
  if (!fromReset)
    return failUsage("not-restorable",
                     "the tape begins in the middle of a run, in a state that cannot be restored: " + reason,
                     "packet 0", "--from-reset plays it on a freshly reset device all the same");
  start.stateUnknown = true;
  start.keyframes.clear();
  return start;
}

} // namespace tapeback
