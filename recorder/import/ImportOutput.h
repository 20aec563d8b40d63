// What an importer writes to: the tape, with what all importers need done in one place.
#pragma once

#include "format/Failure.h"
#include "format/TapeWriter.h"
#include "llvm/ADT/StringMap.h"
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tapeback {

/// Something to tell the user about the capture, at a place in it.
struct ImportRemark {
  std::string code;    ///< Stable, kebab-case.
  std::string message; ///< One sentence.
  std::string where;   ///< FILE:LINE:COLUMN.
};

/// Packets get origin Imported, the clock given with clock(), and the time set by at(). Errors of writing are
/// sticky and are asked for once in a while (failed()); nothing is written after one.
class ImportOutput {
public:
  ImportOutput(TapeWriter &tape, bool lacksMemory)
      : tape(tape), memoryIsMissing(lacksMemory), ordinal(tape.packetCount()) {}

  /// Descriptions by alias; the empty alias is for every device without one of its own.
  void describe(std::map<std::string, DeviceRecord> texts) { descriptions = std::move(texts); }

  /// A description that the importer made itself, for devices that the user gives none for.
  void describeIfNone(llvm::StringRef text, llvm::StringRef name);

  /// All packets from here on use this clock. Once, before the first packet.
  void clock(llvm::StringRef name, uint64_t ticksPerSecond = 1'000'000'000);
  /// Packets from here on happen at this time of the clock. A time before the last one is counted.
  void at(uint64_t time) {
    backward += time < now;
    now = time;
  }
  uint64_t time() const { return now; }

  /// Ids by name; added when first used. A device is announced by an Open packet. Nothing if there are too
  /// many of them.
  std::optional<uint16_t> device(llvm::StringRef alias,
                                 const std::map<std::string, std::string> &identity = {});
  std::optional<uint16_t> space(llvm::StringRef name);

  /// Appends and returns the packet's ordinal. Without stamps it gets at()'s time; its completion, if it has
  /// none and is not pending, that of its issue.
  uint64_t append(const Packet &packet) {
    if (LLVM_UNLIKELY(missingLines || memoryIsMissing || runLength == runPackets))
      beforePacket(packet);
    Packet &last = run[runLength++] = packet;
    stamp(last);
    return ordinal++;
  }
  uint64_t append(Packet packet, const PacketExtra &extra);
  /// The same with a content (or a name); the length of memory is filled in if it is zero.
  uint64_t append(Packet packet, PacketExtra extra, llvm::ArrayRef<uint8_t> content);
  uint64_t append(Packet packet, PacketExtra extra, llvm::StringRef content) {
    return append(packet, extra, llvm::ArrayRef(content.bytes_begin(), content.size()));
  }
  /// A Marker starts a window.
  void marker(llvm::StringRef text, uint16_t device = 0);
  void endWindow();
  /// What the source says that it lost; unknownCount if it does not say how much.
  void loss(LossCause cause, uint64_t count);
  /// Makes [address, address+length) visible to the device, in whole pages, as far as it is not yet.
  void mapMemory(uint16_t device, uint64_t address, uint64_t length);

  /// The recorded run ended with the death of the machine that was its target; what the tape's signature is.
  void machineDied(llvm::StringRef name, llvm::StringRef lastWords);
  const std::optional<Signature> &death() const { return diedOf; }

  /// The capture cannot be imported at all; the first failure counts.
  void fail(llvm::Error error) { keep(std::move(error)); }
  /// Remembered for the report, the first few of each code; all are counted.
  void warn(llvm::StringRef code, std::string message);

  /// Used by the driver.
  void inFile(llvm::StringRef name) { fileName = name.str(); }
  void atLine(uint64_t number) { lineNumber = number; }
  std::string where(unsigned column = 0) const;
  /// A line was not understood: what it stood for is missing. Becomes a Loss packet before the next packet.
  void lineMissing() { ++missingLines; }
  /// The last lines' losses too.
  void finish() {
    flushMissing();
    flushRun();
  }
  bool failed() const { return failure.has_value(); }
  llvm::Error takeError();
  uint64_t events() const { return eventCount; } ///< Packets other than Open and Loss.
  uint64_t timesBackward() const { return backward; }
  uint64_t sourceLosses() const { return lossCount; }
  const std::vector<ImportRemark> &warnings() const { return remarks; }
  const llvm::StringMap<uint64_t> &warningCounts() const { return counts; }

private:
  /// Packets without extras go to the tape in runs.
  static constexpr size_t runPackets = 256;

  void stamp(Packet &packet) {
    packet.origin = Origin::Imported;
    packet.clock = clockId;
    if (!(packet.issueTime | packet.completeTime))
      packet.issueTime = now;
    if (packet.completion == Completion::Pending)
      packet.completeTime = 0;
    else if (!packet.completeTime)
      packet.completeTime = packet.issueTime;
    eventCount += packet.kind != PacketKind::Open && packet.kind != PacketKind::Loss;
  }
  void beforePacket(const Packet &packet);
  void flushRun();
  void keep(llvm::Error error);
  void flushMissing();
  void lossPacket(LossCause cause, uint64_t count);

  TapeWriter &tape;
  bool memoryIsMissing; ///< Not said on the tape yet.
  uint64_t ordinal;     ///< Of the next packet.
  size_t runLength = 0;
  std::array<Packet, runPackets> run;
  std::map<std::string, DeviceRecord> descriptions;
  llvm::StringMap<uint16_t> devices, spaces;
  std::optional<Failure> failure;
  std::optional<Signature> diedOf;
  std::map<uint64_t, uint64_t> mapped; ///< First address to end, disjoint.
  uint64_t now = 0, backward = 0, eventCount = 0, lossCount = 0, missingLines = 0;
  uint8_t clockId = 0;
  std::string fileName;
  uint64_t lineNumber = 0;
  std::vector<ImportRemark> remarks;
  llvm::StringMap<uint64_t> counts;
};

} // namespace tapeback
