// One of the two tapes of a comparison: its packets by stream (device and thread), each with what it is
// aligned by.
#pragma once

#include "replayer/AccessRules.h"
#include "replayer/diff/Regions.h"

namespace tapeback {

/// What a packet is an anchor of. Anchors of a lower level are aligned first; what lies between two that go
/// together is aligned by the next level.
enum class DiffLevel : uint8_t { Marker, Span, Command, Packet };

struct DiffItem {
  uint64_t ordinal = 0;
  uint64_t key = 0; ///< Equal keys may go together: kind and place, never a value.
  DiffLevel level = DiffLevel::Packet;
  uint32_t polls = 0; ///< Reads of the same register before it that it stands for.
  Packet packet;
  PacketExtra extra;
};

/// Packets of one device and thread, in the program's order.
struct DiffStream {
  std::string device; ///< Alias, or "#1".
  uint16_t number = 0, thread = 0;
  uint64_t first = 0, packets = 0;
};

/// Owns its source. One thread. Bounded: streams, mappings, and what is loaded at a time.
class DiffSide {
public:
  /// Reads the whole tape once. `shared`: the descriptions by which both tapes are read, by device; null: the
  /// tape's own.
  static llvm::Expected<std::unique_ptr<DiffSide>> create(std::unique_ptr<TapeSource> source,
                                                          const DiffSide *shared);

  const std::vector<DiffStream> &streams() const { return allStreams; }
  TapeSource &source() { return *tape; }
  const Description *description(uint16_t device) const;
  /// Of this device, as numbered on this tape.
  const Regions &regions(uint16_t device) const {
    return device < mappings.size() ? mappings[device] : noRegions;
  }
  AccessRules &rules(uint16_t device) { return accessRules[device]; }
  uint64_t losses() const { return lossPackets; }
  /// Packets that are not aligned: what the recorder did by itself, clocks, ticks.
  uint64_t evidence() const { return evidencePackets; }

  /// Fills `items` up to `most` from where the last call on this stream ended. `done`: there are no more.
  llvm::Error load(const DiffStream &stream, uint64_t *position, size_t most, std::vector<DiffItem> &items,
                   bool *done);

private:
  DiffSide() = default;
  llvm::Error survey();
  llvm::Expected<DiffItem> itemOf(uint64_t ordinal, const Packet &packet, const PacketExtra &extra);
  bool isPollTurn(const DiffItem &before, const DiffItem &after);
  bool endsPoll(const std::vector<DiffItem> &run);

  std::unique_ptr<TapeSource> tape;
  std::vector<const Description *> descriptions;
  std::vector<Regions> mappings;
  Regions noRegions;
  std::vector<AccessRules> accessRules;
  std::vector<DiffStream> allStreams;
  uint64_t lossPackets = 0, evidencePackets = 0;
};

} // namespace tapeback
