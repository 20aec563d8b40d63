#include "replayer/reduce/Outstanding.h"
#include "replayer/Commands.h"

namespace tapeback {

Outstanding::Queue Outstanding::queueOf(uint32_t packet) const {
  const Packet &start = image.packets[packet];
  constexpr uint64_t activities = uint64_t(1) << 32;
  return {start.device,
          start.kind == PacketKind::Submit ? start.value : activities + image.work[packet].activity};
}

void Outstanding::end(std::deque<Work> &queue, const PacketWork &seen, bool kept) {
  for (Work &work : queue)
    if (seen.all || work.packet == seen.ends || (seen.andBefore && work.packet < seen.ends)) {
      work.onTape = false;
      work.inPart &= !kept;
    }
  llvm::erase_if(queue, [](const Work &work) { return !work.onTape && !work.inPart; });
}

void Outstanding::add(uint32_t i, bool kept) {
  const Packet &packet = image.packets[i];
  const PacketWork &role = image.work[i];
  if (isReset(*image.source, packet)) {
    PacketWork everything;
    everything.all = true;
    for (auto &[key, queue] : queues)
      if (key.first == packet.device)
        end(queue, everything, kept);
  } else if (role.of == i) {
    std::deque<Work> &queue = queues[queueOf(i)];
    if (queue.size() >= mostWork)
      queue.pop_front();
    queue.push_back({i, true, kept, !kept});
  } else if (role.all) {
    for (auto &[key, queue] : queues)
      if (key.first == packet.device)
        end(queue, role, kept);
  } else if (role.ends != TapeImage::none) {
    end(queues[queueOf(role.ends)], role, kept);
  } else if (packet.kind == PacketKind::DmaDescriptor && (packet.flags & TransferFromDevice) &&
             role.of != TapeImage::none) {
    llvm::erase_if(incoming, [&](const Incoming &one) {
      // An activity's transfer is told of before the write that starts it.
      return one.work < i &&
             llvm::none_of(
                 queues[queueOf(one.work)], [&](const Work &work) { return work.packet == one.work; });
    });
    const PacketExtra &extra = image.extras[i];
    uint64_t span =
        extra.count > 1 ? (extra.count - 1) * extra.expected + extra.length / extra.count : extra.length;
    incoming.push_back({packet.address, packet.address + span, packet.device, role.of});
  }
}

bool Outstanding::overfull(uint32_t submit, uint64_t size) const {
  auto queue = queues.find(queueOf(submit));
  if (!size || queue == queues.end())
    return false;
  auto onTape = llvm::count_if(queue->second, [](const Work &work) { return work.onTape; });
  auto inPart = llvm::count_if(queue->second, [](const Work &work) { return work.inPart; });
  return uint64_t(inPart) > size - 1 && uint64_t(onTape) <= size - 1;
}

bool Outstanding::isUnordered(uint32_t i) const {
  const Packet &packet = image.packets[i];
  if (image.work[i].of != i)
    return false;
  const Queue own = queueOf(i);
  // Here: others at work that the host had waited for. Anywhere: a command left out that made its queue wait,
  // and the queue goes on.
  bool elsewhere = false, goesOn = false;
  for (const auto &[key, queue] : queues) {
    if (key.first != packet.device)
      continue;
    bool loose = false;
    for (const Work &work : queue) {
      if (key != own && work.inPart && !work.onTape)
        return true;
      loose |= work.gone && work.onTape && image.work[work.packet].orders;
      goesOn |= loose && work.inPart;
      elsewhere |= key != own && work.inPart;
    }
  }
  return elsewhere && goesOn;
}

bool Outstanding::isOpenInPartOnly(uint32_t work) const {
  auto queue = queues.find(queueOf(work));
  return queue != queues.end() && llvm::any_of(queue->second, [&](const Work &one) {
           return one.packet == work && one.inPart && !one.onTape;
         });
}

bool Outstanding::isSettled(uint32_t i) const {
  const Packet &packet = image.packets[i];
  const PacketWork &role = image.work[i];
  switch (packet.kind) {
  case PacketKind::DmaCompletion: return role.of == TapeImage::none || !isOpenInPartOnly(role.of);
  case PacketKind::MemoryRead:
  case PacketKind::Acquire:
    return llvm::none_of(incoming, [&](const Incoming &one) {
      return one.device == packet.device && one.from < packet.address + image.extras[i].length &&
             packet.address < one.to && isOpenInPartOnly(one.work);
    });
  case PacketKind::RegisterRead: {
    // One that waits, or says how far a queue is, is for a device at work.
    if (role.ends != TapeImage::none || role.all || role.progress)
      return true;
    bool onTape = false, inPart = false;
    for (const auto &[key, queue] : queues)
      for (const Work &work : queue) {
        onTape |= key.first == packet.device && work.onTape;
        inPart |= key.first == packet.device && work.inPart;
      }
    return onTape || !inPart;
  }
  default: return true;
  }
}

} // namespace tapeback
