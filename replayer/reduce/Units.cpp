#include "replayer/reduce/Units.h"
#include "replayer/Commands.h"
#include "replayer/PacketRoles.h"
#include "llvm/ADT/IntEqClasses.h"
#include <set>

namespace tapeback {

std::vector<Unit> spanUnits(const TapeImage &image, unsigned depth) {
  std::map<uint16_t, std::vector<uint32_t>> open; // By thread: the packets that began spans.
  std::map<uint32_t, uint32_t> ends;
  std::map<uint32_t, unsigned> depths;
  for (uint32_t i = 0; i < image.packets.size(); ++i) {
    std::vector<uint32_t> &spans = open[image.packets[i].thread];
    if (image.packets[i].kind == PacketKind::SpanBegin) {
      depths[i] = unsigned(spans.size());
      spans.push_back(i);
    } else if (image.packets[i].kind == PacketKind::SpanEnd) {
      // One that was not ended ends with the one around it.
      while (!spans.empty() && spans.back() > image.extras[i].link)
        spans.pop_back();
      if (!spans.empty() && spans.back() == image.extras[i].link) {
        ends[spans.back()] = i;
        spans.pop_back();
      }
    }
  }
  std::vector<Unit> units;
  uint32_t from = 0; // Spans of other threads overlap: a packet belongs to the first.
  for (auto [begin, end] : ends) {
    if (depths[begin] != depth)
      continue;
    Unit unit;
    for (uint32_t i = std::max(begin, from); i <= end; ++i)
      unit.push_back(i);
    from = std::max(from, end + 1);
    if (!unit.empty())
      units.push_back(std::move(unit));
  }
  return units;
}

std::vector<Unit> windowUnits(const TapeImage &image) {
  std::vector<Unit> units;
  for (uint32_t i = 0; i < image.packets.size(); ++i) {
    if (units.empty() || image.windows[i] != image.windows[units.back().front()])
      units.emplace_back();
    units.back().push_back(i);
  }
  return units;
}

namespace {

/// What a device was told before the command that is next.
class Preparation {
public:
  Preparation(const TapeImage &image, llvm::IntEqClasses &classes) : image(image), classes(classes) {}

  void add(uint32_t i) {
    const Packet &packet = image.packets[i];
    if (packet.kind == PacketKind::RegisterWrite && starts(packet)) {
      command(i);
      return;
    }
    if (packet.kind == PacketKind::RegisterWrite) {
      Register reg{packet.space, packet.address};
      // Seen by the last command at most, since it is written again.
      if (auto found = seenOnce.find(reg); found != seenOnce.end()) {
        classes.join(found->second.write, found->second.command);
        seenOnce.erase(found);
      }
      written[reg] = i;
    }
    bool gives = packet.kind == PacketKind::MemoryWrite && image.fills[i] == TapeImage::none;
    if (gives || (packet.kind == PacketKind::DmaDescriptor && image.extras[i].link != noLink))
      contents.push_back(i);
    else if (packet.kind != PacketKind::RegisterWrite)
      contents.clear();
  }

  /// What the last command saw nobody else can have seen.
  void finish() {
    for (const auto &[reg, seen] : seenOnce)
      classes.join(seen.write, seen.command);
  }

private:
  using Register = std::pair<uint16_t, uint64_t>;
  struct Seen {
    uint32_t write, command;
  };

  bool starts(const Packet &packet) const {
    const RegisterDescription *reg = registerWritten(*image.source, packet);
    const Description *description = image.source->description(packet.device);
    if (!reg || !description)
      return false;
    unsigned index = description->indexOf(*reg);
    return llvm::any_of(description->activities, [&](const ActivityDescription &activity) {
      return activity.starts.reg == index && activity.starts.holds(packet.value);
    });
  }

  void command(uint32_t i) {
    // What was written before the command before and not since has been seen by both.
    seenOnce.clear();
    for (auto [reg, write] : written)
      seenOnce[reg] = {write, i};
    written.clear();
    for (uint32_t content : contents)
      classes.join(content, i);
    contents.clear();
  }

  const TapeImage &image;
  llvm::IntEqClasses &classes;
  std::map<Register, uint32_t> written; ///< Since the last command.
  std::map<Register, Seen> seenOnce;    ///< Written before the last command, and not since.
  std::vector<uint32_t> contents;       ///< Handed over, directly before what comes next.
};

} // namespace

std::vector<Unit> commandUnits(const TapeImage &image, const Selection &selection) {
  const uint32_t count = uint32_t(image.packets.size());
  llvm::IntEqClasses classes(count);
  std::map<uint16_t, Preparation> devices;
  for (uint32_t i = 0; i < count; ++i) {
    if (!selection.kept[i])
      continue;
    // All commands of a queue need the one that made it.
    bool isCommand = image.packets[i].kind == PacketKind::Submit;
    if (uint32_t need = image.needs[i];
        need != TapeImage::none && need < count && selection.kept[need] && !isCommand)
      classes.join(i, need);
    devices.try_emplace(image.packets[i].device, image, classes).first->second.add(i);
  }
  for (auto &[device, preparation] : devices)
    preparation.finish();
  std::map<uint32_t, size_t> unitOf; // By leader.
  std::vector<Unit> units;
  for (uint32_t i = 0; i < count; ++i) {
    if (!selection.kept[i])
      continue;
    auto [found, isNew] = unitOf.try_emplace(classes.findLeader(i), units.size());
    if (isNew)
      units.emplace_back();
    units[found->second].push_back(i);
  }
  return units;
}

std::vector<Unit> passiveUnits(const TapeImage &image, const Selection &selection, uint32_t failing) {
  std::set<uint32_t> needed;
  for (uint32_t i = failing; i < image.packets.size() && needed.insert(i).second;)
    i = image.needs[i];
  std::vector<Unit> units;
  for (uint32_t i = 0; i < image.packets.size(); ++i) {
    PacketKind kind = image.packets[i].kind;
    bool isPassive = isEvent(kind) || kind == PacketKind::DmaDescriptor ||
                     kind == PacketKind::DmaCompletion || kind == PacketKind::Acquire ||
                     kind == PacketKind::MemoryRead || kind == PacketKind::Oracle;
    if (isPassive && selection.kept[i] && !needed.count(i))
      units.push_back({i});
  }
  return units;
}

std::vector<Unit> packetUnits(const TapeImage &image, const Selection &selection) {
  std::vector<Unit> units;
  for (uint32_t i = 0; i < image.packets.size(); ++i)
    if (selection.kept[i] && image.fills[i] == TapeImage::none)
      units.push_back({i});
  return units;
}

} // namespace tapeback
