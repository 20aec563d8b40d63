#include "replayer/reduce/Candidate.h"
#include "format/Failure.h"
#include "replayer/Rows.h"
#include "replayer/reduce/Completions.h"
#include "replayer/reduce/Outstanding.h"
#include "llvm/Support/xxhash.h"

namespace tapeback {

namespace {

/// Where a queue is: on the tape, and in the candidate.
struct QueuePosition {
  uint64_t size = 0;
  uint64_t tail = 0, pending = 0;       ///< On the tape; pending: submitted since the doorbell.
  uint64_t newTail = 0, newPending = 0; ///< In the candidate.
  void rewind() { tail = pending = newTail = newPending = 0; }
};

class Maker {
public:
  Maker(const TapeImage &image, const Selection &selection)
      : image(image), selection(selection), outstanding(image) {}

  llvm::Expected<Candidate> run() {
    resolve();
    dropped.assign(image.packets.size(), false);
    llvm::Expected<Completions> found = Completions::of(image, kept);
    if (!found)
      return found.takeError();
    completions.emplace(std::move(*found));
    std::vector<uint64_t> renumbered(image.packets.size(), noLink);
    for (size_t i = 0; i < image.packets.size(); ++i) {
      Packet packet = image.packets[i];
      PacketExtra extra = image.extras[i];
      llvm::Expected<bool> followed = follow(i, packet);
      if (!followed)
        return followed.takeError();
      bool stays = *followed;
      if (!selection.asTheyAre)
        stays = isSensible(uint32_t(i), stays);
      if (made.ahead)
        return std::move(made);
      if (!stays)
        continue;
      if (auto change = selection.changes.find(uint32_t(i)); change != selection.changes.end())
        if (llvm::Error error = apply(change->second, packet, extra))
          return error;
      if (!selection.asTheyAre)
        if (llvm::Error error = moveCompletion(uint32_t(i), packet, extra))
          return error;
      if (linksToPacket(packet.kind) && extra.link != noLink)
        extra.link = extra.link < i ? renumbered[extra.link] : noLink;
      packet.flags &= uint8_t(~Prefix);
      renumbered[i] = made.packets.size();
      addToWindow(i);
      packet.extra = uint32_t(made.extras.size() + 1);
      made.packets.push_back(packet);
      made.extras.push_back(extra);
      made.original.push_back(uint32_t(i));
    }
    return std::move(made);
  }

private:
  /// What stands without what it needs goes.
  void resolve() {
    kept = selection.kept;
    if (selection.asTheyAre)
      return;
    for (size_t i = 0; i < kept.size(); ++i)
      if (image.fills[i] != TapeImage::none)
        kept[i] = kept[image.fills[i]] && i < selection.end;
    // A need is earlier on the tape, but for an Expectation's check, which is the next packet.
    for (size_t i = 0; i < kept.size(); ++i)
      if (uint32_t need = image.needs[i]; kept[i] && need != TapeImage::none && need < i && !kept[need])
        kept[i] = false;
    for (size_t i = 0; i < kept.size(); ++i)
      if (uint32_t need = image.needs[i]; kept[i] && need != TapeImage::none && need > i && !kept[need])
        kept[i] = false;
  }

  /// Whether it stays where the device may still be at work on what it looks at.
  bool isSensible(uint32_t i, bool stays) {
    if (stays && !(outstanding.isSettled(i) && linkStays(i)))
      stays = false;
    // What only the recorder looked at is in no part, and is none the worse for that.
    outstanding.add(i, stays || image.isEvidenceOnly(i));
    if (stays && image.roles[i].kind == QueueRole::Kind::Submit)
      made.ahead = outstanding.overfull(i, queue(image.packets[i], image.roles[i].queue).size);
    made.ahead |= stays && outstanding.isUnordered(i);
    dropped[i] = !stays;
    return stays;
  }

  /// What it is about has not been left out for that reason.
  bool linkStays(uint32_t i) const {
    uint32_t need = image.needs[i];
    return need == TapeImage::none || need > i || !dropped[need];
  }

  QueuePosition &queue(const Packet &packet, unsigned number) { return queues[{packet.device, number}]; }

  /// Keeps count of the queues; moves entries and doorbells. False: the packet goes.
  llvm::Expected<bool> follow(size_t i, Packet &packet) {
    if (selection.asTheyAre)
      return kept[i];
    QueueRole role = image.roles[i];
    switch (role.kind) {
    case QueueRole::Kind::None: return kept[i];
    case QueueRole::Kind::DeviceReset:
      // One that is left out lets the device go on, but the entries behind it begin anew on the tape.
      for (auto &[key, position] : queues)
        if (key.first == packet.device) {
          position.tail = position.pending = 0;
          if (kept[i])
            position.newTail = position.newPending = 0;
        }
      return kept[i];
    case QueueRole::Kind::Size:
      queue(packet, role.queue).size =
          image.source->description(packet.device)->queues[role.queue].entriesOf(packet.value);
      queue(packet, role.queue).rewind();
      return kept[i];
    case QueueRole::Kind::Rewind: queue(packet, role.queue).rewind(); return kept[i];
    case QueueRole::Kind::Release: return completions->release(uint32_t(i), packet) && kept[i];
    case QueueRole::Kind::Submit: return submit(i, packet, queue(packet, role.queue));
    case QueueRole::Kind::Doorbell: return doorbell(i, packet, queue(packet, role.queue));
    }
    return kept[i];
  }

  llvm::Expected<bool> submit(size_t i, Packet &packet, QueuePosition &at) {
    if (llvm::Error error = create(i, packet))
      return error;
    const Description *description = image.source->description(packet.device);
    uint64_t bytes = description && packet.value < description->queues.size()
                         ? description->layouts[description->queues[size_t(packet.value)].layout].size
                         : 0;
    uint64_t place = at.size ? (at.tail + at.pending) % at.size : 0;
    uint64_t newPlace = at.size ? (at.newTail + at.newPending) % at.size : 0;
    ++at.pending;
    if (!kept[i])
      return false;
    packet.address += (newPlace - place) * bytes;
    ++at.newPending;
    return true;
  }

  /// A queue that the entry makes begins anew, with a size of its own.
  llvm::Error create(size_t i, const Packet &packet) {
    llvm::Expected<std::optional<TapeImage::Creation>> creation = image.createdBy(packet, image.extras[i]);
    if (!creation)
      return creation.takeError();
    if (!*creation || (*creation)->completions)
      return llvm::Error::success();
    QueuePosition &made = queue(packet, (*creation)->index);
    made.rewind();
    made.size = (*creation)->entries;
    return llvm::Error::success();
  }

  /// What the device said is done, and who looks there, at its place in the ring.
  llvm::Error moveCompletion(uint32_t i, Packet &packet, PacketExtra &extra) {
    std::vector<uint8_t> content;
    if (packet.kind == PacketKind::CommandDone && extra.payload) {
      llvm::Expected<llvm::ArrayRef<uint8_t>> recorded = image.source->reader().blob(extra.payload);
      if (!recorded)
        return recorded.takeError();
      content.assign(recorded->begin(), recorded->end());
    } else if (image.about[i] == TapeImage::none) {
      return llvm::Error::success();
    }
    std::vector<uint8_t> before = content;
    completions->move(i, packet, extra, content);
    if (content != before)
      extra.payload = replace(content);
    return llvm::Error::success();
  }

  bool doorbell(size_t i, Packet &packet, QueuePosition &at) {
    bool handsOver = at.pending != 0;
    at.tail = at.size ? packet.value % at.size : 0;
    at.pending = 0;
    // One that handed entries over of which none is left has nothing to say.
    if (!kept[i] || (handsOver && at.newPending == 0))
      return false;
    if (at.size && handsOver) {
      at.newTail = (at.newTail + at.newPending) % at.size;
      packet.value = at.newTail;
    }
    at.newPending = 0;
    return true;
  }

  llvm::Error apply(const Change &change, Packet &packet, PacketExtra &extra) {
    if (change.value && packet.kind == PacketKind::RegisterWrite)
      packet.value = *change.value;
    std::vector<uint8_t> content;
    if (extra.payload) {
      llvm::Expected<llvm::ArrayRef<uint8_t>> recorded = image.source->reader().blob(extra.payload);
      if (!recorded)
        return recorded.takeError();
      content.assign(recorded->begin(), recorded->end());
    }
    std::vector<uint8_t> before = content;
    for (auto [from, to] : change.zero)
      for (uint64_t at = from; at < std::min<uint64_t>(to, content.size()); ++at)
        content[size_t(at)] = 0;
    setFields(change, packet, content);
    cut(change, packet, extra, content);
    if (content != before)
      extra.payload = content.empty() ? BlobId() : replace(content);
    return llvm::Error::success();
  }

  void setFields(const Change &change, const Packet &packet, std::vector<uint8_t> &content) const {
    const Description *description = image.source->description(packet.device);
    if (packet.kind != PacketKind::Submit || change.fields.empty() || !description ||
        packet.value >= description->queues.size())
      return;
    const EntryForm *form =
        description->layouts[description->queues[size_t(packet.value)].layout].formOf(content);
    for (auto [field, value] : change.fields)
      if (form && field < form->fields.size())
        setEntryValue(form->fields[field], content, value);
  }

  static void cut(const Change &change, const Packet &packet, PacketExtra &extra,
                  std::vector<uint8_t> &content) {
    if ((!change.rows && !change.rowBytes) || packet.kind == PacketKind::Submit)
      return;
    llvm::Expected<Rows> rows = Rows::of(packet, extra);
    if (!rows) {
      llvm::consumeError(rows.takeError()); // Not a packet that can be cut: it stays as it is.
      return;
    }
    uint64_t count = std::min(rows->count, change.rows.value_or(rows->count));
    uint64_t rowBytes = std::min(rows->rowBytes, change.rowBytes.value_or(rows->rowBytes));
    std::vector<uint8_t> left;
    for (uint64_t row = 0; row < count; ++row)
      for (uint64_t at = row * rows->rowBytes; at < row * rows->rowBytes + rowBytes && at < content.size();
           ++at)
        left.push_back(content[size_t(at)]);
    content = std::move(left);
    extra.length = count * rowBytes;
    if (extra.count > 1)
      extra.count = count;
  }

  BlobId replace(const std::vector<uint8_t> &content) {
    llvm::XXH128_hash_t hash = llvm::xxh3_128bits(content);
    made.contents[{hash.high64, hash.low64}] = content;
    return {hash.high64, hash.low64};
  }

  void addToWindow(size_t i) {
    if (made.windows.empty() || lastWindow != image.windows[i]) {
      WindowInfo window;
      window.firstPacket = made.packets.size();
      window.firstTime = image.packets[i].issueTime;
      made.windows.push_back(window);
      lastWindow = image.windows[i];
    }
    ++made.windows.back().packetCount;
    made.windows.back().lastTime = image.packets[i].issueTime;
  }

  const TapeImage &image;
  const Selection &selection;
  std::vector<bool> kept, dropped;
  Outstanding outstanding;
  std::optional<Completions> completions;
  std::map<std::pair<uint16_t, unsigned>, QueuePosition> queues;
  Candidate made;
  uint32_t lastWindow = 0;
};

class CandidateReader : public TapeReader {
public:
  CandidateReader(const TapeImage &image, const Candidate &candidate)
      : parent(image.source->reader()), candidate(candidate) {
    sums.packets = candidate.packets.size();
    sums.windows = candidate.windows.size();
  }

  const Manifest &manifest() const override { return parent.manifest(); }
  llvm::ArrayRef<DeviceRecord> devices() const override { return parent.devices(); }
  llvm::ArrayRef<std::string> spaces() const override { return parent.spaces(); }
  llvm::ArrayRef<TapeClock> clocks() const override { return parent.clocks(); }
  const TapeSummary &summary() const override { return sums; }
  const Outcome &outcome() const override { return unknown; }
  uint16_t formatVersion() const override { return parent.formatVersion(); }
  std::array<uint8_t, 16> tapeId() const override { return parent.tapeId(); }
  uint64_t createdNs() const override { return parent.createdNs(); }
  uint64_t fileBytes() const override { return 0; }

  llvm::Expected<WindowInfo> window(uint64_t n) override {
    if (n >= candidate.windows.size())
      return failUsage("bad-range", "there is no window " + std::to_string(n));
    return candidate.windows[n];
  }
  llvm::Expected<uint64_t> windowOfPacket(uint64_t packet) override {
    if (packet >= candidate.packets.size())
      return failUsage("bad-range", "there is no packet " + std::to_string(packet));
    auto after =
        std::upper_bound(candidate.windows.begin(), candidate.windows.end(), packet,
                         [](uint64_t p, const WindowInfo &window) { return p < window.firstPacket; });
    return uint64_t(after - candidate.windows.begin()) - 1;
  }
  llvm::Error readPackets(uint64_t first, uint64_t count, PacketBatch &batch) override {
    if (first > candidate.packets.size() || count > candidate.packets.size() - first)
      return failUsage("bad-range", "there are no packets " + std::to_string(first) + " to " +
                                        std::to_string(first + count));
    batch.clear();
    batch.firstOrdinal = first;
    for (uint64_t i = first; i < first + count; ++i)
      batch.append(candidate.packets[i], candidate.extras[i]);
    return llvm::Error::success();
  }
  llvm::Error readWindow(uint64_t n, PacketBatch &batch) override {
    llvm::Expected<WindowInfo> info = window(n);
    if (!info)
      return info.takeError();
    return readPackets(info->firstPacket, info->packetCount, batch);
  }
  llvm::Error readBlockFrom(uint64_t first, PacketBatch &batch) override {
    constexpr uint64_t most = 4096;
    uint64_t there = candidate.packets.size();
    return readPackets(std::min(first, there), first < there ? std::min(most, there - first) : 0, batch);
  }
  llvm::Expected<llvm::ArrayRef<uint8_t>> blob(BlobId id) override {
    auto found = candidate.contents.find({id.hi, id.lo});
    return found != candidate.contents.end() ? llvm::ArrayRef<uint8_t>(found->second) : parent.blob(id);
  }
  uint64_t keyframeCount() const override { return candidate.packets.empty() ? 0 : parent.keyframeCount(); }
  llvm::Expected<Keyframe> keyframe(uint64_t n) override {
    // Only one that the tape begins with is a state; the others are summaries of packets that may be gone.
    llvm::Expected<Keyframe> keyframe = parent.keyframe(n);
    if (keyframe && keyframe->packet != 0)
      keyframe->restorable = false;
    return keyframe;
  }
  llvm::Expected<std::vector<TriggerRecord>> triggers() override { return std::vector<TriggerRecord>(); }

private:
  TapeReader &parent;
  const Candidate &candidate;
  TapeSummary sums;
  Outcome unknown;
};

} // namespace

void Change::addZeroes(llvm::ArrayRef<std::pair<uint64_t, uint64_t>> ranges) {
  zero.insert(zero.end(), ranges.begin(), ranges.end());
  if (zero.empty())
    return;
  std::sort(zero.begin(), zero.end());
  size_t last = 0;
  for (size_t i = 1; i < zero.size(); ++i)
    if (zero[i].first <= zero[last].second)
      zero[last].second = std::max(zero[last].second, zero[i].second);
    else
      zero[++last] = zero[i];
  zero.resize(last + 1);
}

llvm::Expected<Candidate> makeCandidate(const TapeImage &image, const Selection &selection) {
  return Maker(image, selection).run();
}

std::unique_ptr<TapeReader> readCandidate(const TapeImage &image, const Candidate &candidate) {
  return std::make_unique<CandidateReader>(image, candidate);
}

llvm::Expected<std::unique_ptr<TapeSource>> sourceOf(const TapeImage &image, const Candidate &candidate) {
  return TapeSource::create(readCandidate(image, candidate));
}

} // namespace tapeback
