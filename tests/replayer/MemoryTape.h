// A tape in memory: for tests that need many small ones, or such as no writer would write.
#pragma once

#include "format/TapeReader.h"
#include <map>

namespace tapeback::test {

/// Everything is public and unchecked: hostile tapes are made by hand.
class MemoryTape : public TapeReader {
public:
  Manifest theManifest;
  std::vector<DeviceRecord> theDevices;
  std::vector<std::string> theSpaces{"memory"};
  std::vector<TapeClock> theClocks{{"host-monotonic"}};
  Outcome theOutcome;
  std::vector<Packet> packets;
  std::vector<PacketExtra> extras; ///< One for each packet.
  std::vector<WindowInfo> windows;
  std::vector<Keyframe> keyframes;
  std::map<std::pair<uint64_t, uint64_t>, std::vector<uint8_t>> blobs;
  std::vector<TriggerRecord> triggerRecords;
  size_t blockPackets = 61; ///< Small, so that everything crosses blocks.

  /// Stores a content and names it as the format does.
  BlobId store(llvm::ArrayRef<uint8_t> content);
  BlobId storeText(llvm::StringRef text);
  uint64_t add(const Packet &packet, const PacketExtra &extra = {});
  void endWindow(bool quiescent);
  /// A second reader of the same content.
  std::unique_ptr<MemoryTape> copy() const { return std::make_unique<MemoryTape>(*this); }

  const Manifest &manifest() const override { return theManifest; }
  llvm::ArrayRef<DeviceRecord> devices() const override { return theDevices; }
  llvm::ArrayRef<std::string> spaces() const override { return theSpaces; }
  llvm::ArrayRef<TapeClock> clocks() const override { return theClocks; }
  const TapeSummary &summary() const override;
  const Outcome &outcome() const override { return theOutcome; }
  uint16_t formatVersion() const override { return 1; }
  std::array<uint8_t, 16> tapeId() const override { return {}; }
  uint64_t createdNs() const override { return 0; }
  uint64_t fileBytes() const override { return 0; }
  llvm::Expected<WindowInfo> window(uint64_t n) override;
  llvm::Expected<uint64_t> windowOfPacket(uint64_t packet) override;
  llvm::Error readPackets(uint64_t first, uint64_t count, PacketBatch &batch) override;
  llvm::Error readWindow(uint64_t n, PacketBatch &batch) override;
  llvm::Error readBlockFrom(uint64_t first, PacketBatch &batch) override;
  llvm::Expected<llvm::ArrayRef<uint8_t>> blob(BlobId id) override;
  uint64_t keyframeCount() const override { return keyframes.size(); }
  llvm::Expected<Keyframe> keyframe(uint64_t n) override;
  llvm::Expected<std::vector<TriggerRecord>> triggers() override { return triggerRecords; }

private:
  mutable TapeSummary theSummary;
};

/// Writes it to a file through TapeWriter. Throws std::runtime_error.
void writeTape(const MemoryTape &tape, const std::string &path);

} // namespace tapeback::test
