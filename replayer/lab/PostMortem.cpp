#include "replayer/lab/PostMortem.h"
#include "format/Failure.h"
#include "replayer/Commands.h"
#include "replayer/Replay.h"
#include "llvm/ADT/StringExtras.h"

namespace tapeback {

PostMortem::PostMortem(const TapeSource &source) : source(source) {
  for (size_t device = 0; device < source.deviceCount(); ++device) {
    const Description *description = source.description(uint16_t(device));
    if (!description || description->postMortem.empty())
      continue;
    any = true;
    for (const RegisterCondition &condition : description->resets)
      resetAddresses.push_back(description->registers[condition.reg].offset);
  }
}

bool PostMortem::isReset(const Packet &packet) const {
  bool may = packet.kind == PacketKind::Reset ||
             (packet.kind == PacketKind::RegisterWrite && llvm::is_contained(resetAddresses, packet.address));
  return may && tapeback::isReset(source, packet);
}

size_t PostMortem::edge(const PacketBatch &batch, size_t begin, size_t end) {
  if (!any || done)
    return end;
  // A batch is gone through once, however often it is asked about.
  uint64_t from = batch.firstOrdinal + begin + 1, to = batch.firstOrdinal + end;
  if (from < scannedFrom || to > scannedTo || (nextReset < from && nextReset != scannedTo)) {
    scannedFrom = from;
    nextReset = scannedTo = to;
    for (uint64_t i = from; i < to && nextReset == to; ++i)
      if (isReset(batch.packets[i - batch.firstOrdinal]))
        nextReset = i;
  }
  return nextReset >= from && nextReset < to ? size_t(nextReset - batch.firstOrdinal) : end;
}

llvm::Expected<bool> PostMortem::before(const PacketBatch &batch, size_t index, Player &player,
                                        const ReplayReport &report) {
  bool failed = report.firstDivergence || report.targetFailure;
  if (!any || done || !failed || index >= batch.packets.size() || !isReset(batch.packets[index]))
    return true;
  resetPacket = batch.firstOrdinal + index;
  look(player);
  return true;
}

llvm::Error PostMortem::ended(Player &player, ReplayReport &report) {
  if (any && !done && (report.firstDivergence || report.targetFailure || report.signature))
    look(player);
  return llvm::Error::success();
}

static std::string fieldsOf(const RegisterDescription &reg, uint64_t value) {
  std::string text;
  for (const FieldDescription &field : reg.fields) {
    uint64_t bits = (value & field.mask()) >> field.low;
    if (bits)
      text += (text.empty() ? "" : " ") + field.name + "=" + std::to_string(bits);
  }
  return text;
}

void PostMortem::look(Player &player) {
  done = true;
  for (size_t device = 0; device < player.deviceCount(); ++device) {
    DeviceBinding &binding = player.binding(uint16_t(device));
    const Description *description = binding.description();
    if (!description || !binding.capabilities().answers)
      continue;
    bool dead = false;
    for (unsigned index : description->postMortem) {
      const RegisterDescription &reg = description->registers[index];
      PostMortemValue entry;
      entry.device = uint16_t(device);
      entry.reg = reg.name;
      if (dead) {
        entry.failure = "the target does not answer any more";
      } else if (llvm::Expected<uint64_t> value = binding.readRegister(reg)) {
        entry.value = *value;
        entry.fields = fieldsOf(reg, *value);
      } else {
        Failure failure = toFailure(value.takeError());
        entry.failure = failure.message;
        dead = isFatalForTarget(failure);
      }
      read.push_back(std::move(entry));
    }
  }
}

} // namespace tapeback
