#include "replayer/reduce/TapeImage.h"
#include "format/Failure.h"
#include "replayer/Commands.h"
#include "replayer/PacketRoles.h"
#include <algorithm>
#include <map>

namespace tapeback {

llvm::Expected<TapeImage> TapeImage::load(TapeSource &source) {
  TapeImage image;
  image.source = &source;
  TapeReader &reader = source.reader();
  uint64_t count = reader.summary().packets;
  if (count > maxPackets)
    return failUsage("tape-too-long",
                     "the tape has " + std::to_string(count) + " packets; reduce works on at most " +
                         std::to_string(maxPackets),
                     {}, "cut it first: tapeback trim TAPE --range …");
  WindowCursor cursor(reader);
  auto take = [&](const PacketBatch &batch, size_t packets) -> llvm::Expected<bool> {
    for (const Packet &packet : llvm::ArrayRef<Packet>(batch.packets).take_front(packets)) {
      if (llvm::Error error = cursor.moveTo(image.packets.size()))
        return error;
      image.windows.push_back(uint32_t(cursor.window()));
      image.packets.push_back(packet);
      image.extras.push_back(batch.extra(packet));
    }
    return true;
  };
  if (llvm::Error error = source.eachBlock({}, take))
    return error;
  if (llvm::Error error = image.findRoles())
    return error;
  image.findFills();
  if (llvm::Error error = image.findNeeds())
    return error;
  image.findRestated();
  image.findCompletions();
  if (llvm::Error error = image.findWork())
    return error;
  return image;
}

bool TapeImage::isEvidenceOnly(size_t packet) const {
  switch (packets[packet].kind) {
  case PacketKind::Tick:
  case PacketKind::ClockSample:
  case PacketKind::SpanBegin:
  case PacketKind::SpanEnd: return true;
  default: return isEvidence(packets[packet]);
  }
}

/// What a write of a register says to the queues.
static QueueRole roleOfWrite(const Description &description, const RegisterDescription &reg, uint64_t value) {
  unsigned index = description.indexOf(reg);
  for (const RegisterCondition &reset : description.resets)
    if (reset.reg == index && reset.holds(value))
      return {QueueRole::Kind::DeviceReset, 0, 0};
  for (unsigned i = 0; i < description.queues.size(); ++i) {
    const QueueDescription &queue = description.queues[i];
    if (queue.doorbell == index)
      return {QueueRole::Kind::Doorbell, i, 0};
    if (queue.size == index)
      return {QueueRole::Kind::Size, i, 0};
    if (llvm::is_contained(queue.rewind, index))
      return {QueueRole::Kind::Rewind, i, 0};
  }
  return {};
}

llvm::Expected<std::optional<TapeImage::Creation>> TapeImage::createdBy(const Packet &submit,
                                                                        const PacketExtra &extra) const {
  const Description *description = source->description(submit.device);
  if (!description || submit.value >= description->queues.size() || !extra.payload)
    return std::nullopt;
  llvm::Expected<llvm::ArrayRef<uint8_t>> entry = source->reader().blob(extra.payload);
  if (!entry)
    return entry.takeError();
  const EntryForm *form =
      description->layouts[description->queues[size_t(submit.value)].layout].formOf(*entry);
  if (!form || !form->creates)
    return std::nullopt;
  const EntryForm::Creates &creates = *form->creates;
  Creation creation;
  creation.completions = creates.completions;
  creation.base = entryValue(form->fields[creates.base], *entry);
  creation.entries = entryValue(form->fields[creates.size], *entry) + creates.sizePlus;
  const uint64_t number = entryValue(form->fields[creates.number], *entry);
  auto isIt = [&](const RingDescription &ring) { return ring.number == number; };
  auto indexIn = [&](const auto &rings) {
    creation.index = unsigned(llvm::find_if(rings, isIt) - rings.begin());
    return creation.index < rings.size();
  };
  bool known = creates.completions ? indexIn(description->completionQueues) : indexIn(description->queues);
  return known ? std::optional<Creation>(creation) : std::nullopt;
}

namespace {

/// Where the rings of completions are, by what the tape says until then.
class RingBases {
public:
  explicit RingBases(const TapeImage &image) : image(image) {}

  llvm::Error submitted(size_t packet) {
    llvm::Expected<std::optional<TapeImage::Creation>> creation =
        image.createdBy(image.packets[packet], image.extras[packet]);
    if (!creation)
      return creation.takeError();
    if (*creation && (*creation)->completions)
      bases[{image.packets[packet].device, (*creation)->index}] = (*creation)->base;
    return llvm::Error::success();
  }

  /// Of the write of a register: the ring whose places it hands back, if it does.
  std::optional<unsigned> written(const Packet &packet, const Description &description, unsigned index) {
    for (unsigned r = 0; r < description.completionQueues.size(); ++r) {
      const RingDescription &ring = description.completionQueues[r];
      constexpr uint64_t half = 0xffffffff;
      uint64_t &base = bases[{packet.device, r}];
      if (ring.base == index && packet.width == 8)
        base = packet.value;
      else if (ring.base == index)
        base = (base & ~half) | (packet.value & half);
      if (ring.baseHigh == index)
        base = (base & half) | packet.value << 32;
      if (ring.doorbell == index)
        return r;
    }
    return std::nullopt;
  }
  uint64_t baseOf(uint16_t device, unsigned ring) { return bases[{device, ring}]; }

private:
  const TapeImage &image;
  std::map<std::pair<uint16_t, unsigned>, uint64_t> bases; ///< By device and ring.
};

} // namespace

llvm::Error TapeImage::findRoles() {
  roles.assign(packets.size(), {});
  RingBases rings(*this);
  for (size_t i = 0; i < packets.size(); ++i) {
    const Packet &packet = packets[i];
    if (packet.kind == PacketKind::Submit) {
      roles[i] = {QueueRole::Kind::Submit, unsigned(packet.value), 0};
      if (llvm::Error error = rings.submitted(i))
        return error;
    } else if (packet.kind == PacketKind::Reset) {
      roles[i] = {QueueRole::Kind::DeviceReset, 0, 0};
    }
    const RegisterDescription *reg = registerWritten(*source, packet);
    if (!reg)
      continue;
    const Description &description = *source->description(packet.device);
    roles[i] = roleOfWrite(description, *reg, packet.value);
    if (std::optional<unsigned> ring = rings.written(packet, description, description.indexOf(*reg)))
      roles[i] = {QueueRole::Kind::Release, *ring, rings.baseOf(packet.device, *ring)};
  }
  return llvm::Error::success();
}

void TapeImage::findFills() {
  fills.assign(packets.size(), none);
  uint32_t map = none;
  for (uint32_t i = 0; i < packets.size(); ++i) {
    if (packets[i].kind == PacketKind::MemoryMap) {
      map = i;
      continue;
    }
    bool inside = map != none && packets[i].kind == PacketKind::MemoryWrite &&
                  packets[i].device == packets[map].device && packets[i].address >= packets[map].address &&
                  packets[i].address - packets[map].address < extras[map].length;
    if (inside)
      fills[i] = map;
    else
      map = none;
  }
}

namespace {

/// The last fence that would write there, by device and address.
class Fences {
public:
  explicit Fences(const TapeImage &image) : image(image) {}

  llvm::Error submitted(size_t packet) {
    const Packet &submit = image.packets[packet];
    const Description *description = image.source->description(submit.device);
    BlobId payload = image.extras[packet].payload;
    if (!description || submit.value >= description->queues.size() || !payload)
      return llvm::Error::success();
    llvm::Expected<llvm::ArrayRef<uint8_t>> entry = image.source->reader().blob(payload);
    if (!entry)
      return entry.takeError();
    const LayoutDescription &layout = description->layouts[description->queues[size_t(submit.value)].layout];
    const EntryForm *form = layout.formOf(*entry);
    if (form && form->fence)
      last[{submit.device, entryValue(form->fields[form->fence->address], *entry)}].push_back(
          {entryValue(form->fields[form->fence->value], *entry), uint32_t(packet)});
    return llvm::Error::success();
  }
  uint32_t causeOf(const Packet &wait, const PacketExtra &extra) const {
    auto found = last.find({wait.device, wait.address});
    if (found == last.end())
      return TapeImage::none;
    for (auto fence = found->second.rbegin(); fence != found->second.rend(); ++fence)
      if ((fence->first & extra.mask) == extra.expected)
        return fence->second;
    return TapeImage::none;
  }

private:
  const TapeImage &image;
  std::map<std::pair<uint16_t, uint64_t>, std::vector<std::pair<uint64_t, uint32_t>>> last;
};

} // namespace

llvm::Error TapeImage::findNeeds() {
  needs.assign(packets.size(), none);
  std::map<std::pair<uint16_t, uint16_t>, uint32_t> lastSubmit;         // By device and thread.
  std::map<std::tuple<uint16_t, uint64_t, uint64_t>, uint32_t> entries; // By device, queue, number.
  std::map<std::pair<uint16_t, uint64_t>, uint32_t> creators;           // By device and queue.
  Fences fences(*this);
  for (size_t i = 0; i < packets.size(); ++i) {
    const Packet &packet = packets[i];
    const PacketExtra &extra = extras[i];
    if (packet.kind == PacketKind::Submit) {
      lastSubmit[{packet.device, packet.thread}] = uint32_t(i);
      entries[{packet.device, packet.value, extra.count}] = uint32_t(i);
      if (auto made = creators.find({packet.device, packet.value}); made != creators.end())
        needs[i] = made->second;
      llvm::Expected<std::optional<Creation>> creation = createdBy(packet, extra);
      if (!creation)
        return creation.takeError();
      if (*creation && !(*creation)->completions)
        creators[{packet.device, (*creation)->index}] = uint32_t(i);
      if (llvm::Error error = fences.submitted(i))
        return error;
    } else if (packet.kind == PacketKind::DmaDescriptor && extra.link == noLink) {
      auto found = lastSubmit.find({packet.device, packet.thread});
      needs[i] = found == lastSubmit.end() ? none : found->second;
    } else if (packet.kind == PacketKind::CommandDone) {
      auto found = entries.find({packet.device, packet.value, extra.count});
      needs[i] = found == entries.end() ? none : found->second;
    } else if (packet.kind == PacketKind::MemoryWait) {
      needs[i] = fences.causeOf(packet, extra);
    } else if (packet.kind == PacketKind::Expectation) {
      // It belongs to the check behind it.
      if (i + 1 < packets.size() && packets[i + 1].kind == PacketKind::Oracle)
        needs[i] = uint32_t(i + 1);
    } else if (linksToPacket(packet.kind) && extra.link < i) {
      needs[i] = uint32_t(extra.link);
    }
  }
  return llvm::Error::success();
}

void TapeImage::findRestated() {
  restated.assign(packets.size(), false);
  std::map<std::pair<uint16_t, uint64_t>, uint32_t> stored; // By device and address: the last store there.
  for (uint32_t i = 0; i < packets.size(); ++i) {
    const std::pair<uint16_t, uint64_t> place{packets[i].device, packets[i].address};
    if (packets[i].kind == PacketKind::MemoryWrite && fills[i] == none && extras[i].count <= 1)
      stored[place] = i;
    if (packets[i].kind != PacketKind::Submit || !extras[i].payload)
      continue;
    if (auto store = stored.find(place); store != stored.end()) {
      restated[store->second] = extras[store->second].payload == extras[i].payload;
      stored.erase(store);
    }
  }
}

/// Completions come and go with their commands, and what looks at one of their places with them.
void TapeImage::findCompletions() {
  about.assign(packets.size(), none);
  std::map<std::pair<uint16_t, uint64_t>, uint32_t> next; // By device and place.
  auto looksAt = [&](size_t i, PacketKind kind) -> uint32_t {
    if (packets[i].kind != kind)
      return none;
    auto found = next.upper_bound({packets[i].device, packets[i].address});
    if (found == next.begin())
      return none;
    --found;
    uint32_t done = found->second;
    return packets[done].device == packets[i].device &&
                   packets[i].address - found->first.second < extras[done].length
               ? done
               : none;
  };
  auto note = [&](size_t i, uint32_t done) {
    if (done == none)
      return;
    about[i] = done;
    needs[i] = done;
  };
  // A wait is for what comes, a look at what came.
  for (size_t i = packets.size(); i--;)
    if (packets[i].kind == PacketKind::CommandDone && needs[i] != none) {
      fills[i] = needs[i];
      hasCompletions = true;
      next[{packets[i].device, packets[i].address}] = uint32_t(i);
    } else if (uint32_t done = looksAt(i, PacketKind::MemoryWait); done != none) {
      note(i, done);
    }
  next.clear();
  for (size_t i = 0; i < packets.size(); ++i)
    if (packets[i].kind == PacketKind::CommandDone && fills[i] != none) {
      next[{packets[i].device, packets[i].address}] = uint32_t(i);
    } else {
      note(i, looksAt(i, PacketKind::MemoryRead));
      note(i, looksAt(i, PacketKind::Acquire));
    }
}

/// The register that a read or poll begins at, or null.
static const RegisterDescription *registerRead(const TapeSource &source, const Packet &packet) {
  const Description *description = source.description(packet.device);
  bool reads = packet.kind == PacketKind::RegisterRead || packet.kind == PacketKind::Poll;
  const RegisterDescription *reg =
      description && reads ? description->find(source.spaceName(packet.space), packet.address) : nullptr;
  return reg && reg->offset == packet.address ? reg : nullptr;
}

/// Whether the entry makes its queue wait for another.
static llvm::Expected<bool> isOrdering(TapeSource &source, const Packet &submit, const PacketExtra &extra) {
  const Description &description = *source.description(submit.device);
  if (submit.value >= description.queues.size() || !extra.payload)
    return false;
  llvm::Expected<llvm::ArrayRef<uint8_t>> entry = source.reader().blob(extra.payload);
  if (!entry)
    return entry.takeError();
  const EntryForm *form = description.layouts[description.queues[size_t(submit.value)].layout].formOf(*entry);
  return form && form->sync && form->sync->kind != EntryForm::Sync::Kind::Signal;
}

llvm::Error TapeImage::findWork() {
  work.assign(packets.size(), {});
  std::map<std::pair<uint16_t, unsigned>, uint32_t> started; // By device and activity.
  // What an activity transfers is on the tape before the write that starts it.
  std::map<std::pair<uint16_t, unsigned>, std::vector<uint32_t>> announced;
  for (uint32_t i = 0; i < packets.size(); ++i) {
    const Packet &packet = packets[i];
    const Description *description = source->description(packet.device);
    if (!description)
      continue;
    PacketWork &role = work[i];
    if (packet.kind == PacketKind::Submit) {
      role.of = i;
      llvm::Expected<bool> orders = isOrdering(*source, packet, extras[i]);
      if (!orders)
        return orders.takeError();
      role.orders = *orders;
    } else if (packet.kind == PacketKind::DmaDescriptor && extras[i].link == noLink)
      role.of = needs[i];
    else if (packet.kind == PacketKind::DmaDescriptor)
      announced[{packet.device, unsigned(extras[i].link)}].push_back(i);
    else if (packet.kind == PacketKind::DmaCompletion && extras[i].link < i)
      role.of = work[size_t(extras[i].link)].of;
    else if (packet.kind == PacketKind::CommandDone)
      role.ends = needs[i];
    if (packet.kind == PacketKind::MemoryWait && packet.completion == Completion::Done && about[i] == none) {
      role.ends = needs[i];
      role.andBefore = true;
    }
    if (const RegisterDescription *reg = registerWritten(*source, packet)) {
      unsigned index = description->indexOf(*reg);
      for (unsigned a = 0; a < description->activities.size(); ++a)
        if (description->activities[a].starts.reg == index &&
            description->activities[a].starts.holds(packet.value)) {
          role.of = started[{packet.device, a}] = i;
          role.activity = a;
          std::vector<uint32_t> &transfers = announced[{packet.device, a}];
          for (uint32_t transfer : transfers)
            work[transfer].of = i;
          transfers.clear();
        }
    }
    const RegisterDescription *reg = registerRead(*source, packet);
    if (!reg || packet.completion != Completion::Done)
      continue;
    unsigned index = description->indexOf(*reg);
    auto shows = [&](const RegisterCondition &condition) {
      return condition.reg == index && condition.holds(packet.value);
    };
    role.all = llvm::any_of(description->idle, shows);
    for (const auto &[key, start] : started)
      if (key.first == packet.device && llvm::any_of(description->activities[key.second].done, shows))
        role.ends = start;
    role.progress = llvm::any_of(description->queues, [&](const QueueDescription &queue) {
      return queue.head == index || queue.tail == index || queue.done == index;
    });
  }
  return llvm::Error::success();
}

} // namespace tapeback
