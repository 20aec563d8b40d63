// A tape in memory, for tests of what reads tapes.
#pragma once

#include "format/Failure.h"
#include "format/TapeReader.h"
#include <map>
#include <utility>
#include <vector>

namespace tapeback::test {

/// Blocks hold `blockPackets` packets, so that places on both sides of a block's end can be tested.
class FakeReader : public TapeReader {
public:
  uint64_t blockPackets = 4;
  PacketBatch tape;
  std::vector<WindowInfo> windowTable;
  std::map<std::pair<uint64_t, uint64_t>, std::vector<uint8_t>> blobs;
  std::vector<DeviceRecord> deviceTable;
  std::vector<std::string> spaceTable{"memory"};
  std::vector<TapeClock> clockTable{{"host-monotonic"}};
  bool failReads = false; ///< Every readBlockFrom fails: damage.

  /// Appends a marker; it starts a window.
  void marker(const std::string &name) {
    PacketExtra extra;
    extra.payload = blobOf(std::vector<uint8_t>(name.begin(), name.end()));
    extra.length = name.size();
    startWindow();
    Packet packet;
    packet.kind = PacketKind::Marker;
    append(packet, extra);
  }
  void startWindow() {
    if (windowTable.empty() || windowTable.back().packetCount)
      windowTable.push_back({tape.packets.size(), 0, 0, 0, false});
  }
  void append(Packet packet, const PacketExtra &extra = {}) {
    if (windowTable.empty())
      startWindow();
    tape.append(packet, extra);
    ++windowTable.back().packetCount;
    sum.packets = tape.packets.size();
    sum.windows = windowTable.size();
  }
  void ticks(unsigned count) {
    for (unsigned i = 0; i < count; ++i)
      append(Packet());
  }
  BlobId blobOf(std::vector<uint8_t> content) {
    BlobId id{1, blobs.size() + 1};
    blobs[{id.hi, id.lo}] = std::move(content);
    return id;
  }

  const Manifest &manifest() const override { return facts; }
  llvm::ArrayRef<DeviceRecord> devices() const override { return deviceTable; }
  llvm::ArrayRef<std::string> spaces() const override { return spaceTable; }
  llvm::ArrayRef<TapeClock> clocks() const override { return clockTable; }
  const TapeSummary &summary() const override { return sum; }
  const Outcome &outcome() const override { return end; }
  uint16_t formatVersion() const override { return 1; }
  std::array<uint8_t, 16> tapeId() const override { return {}; }
  uint64_t createdNs() const override { return 0; }
  uint64_t fileBytes() const override { return 0; }

  llvm::Expected<WindowInfo> window(uint64_t n) override {
    if (n >= windowTable.size())
      return failUsage("no-such-window", "there is no such window");
    return windowTable[n];
  }
  llvm::Expected<uint64_t> windowOfPacket(uint64_t packet) override {
    for (size_t n = 0; n < windowTable.size(); ++n)
      if (packet - windowTable[n].firstPacket < windowTable[n].packetCount)
        return n;
    return failUsage("no-such-packet", "there is no such packet");
  }
  llvm::Error readPackets(uint64_t first, uint64_t count, PacketBatch &batch) override {
    batch.clear();
    batch.firstOrdinal = first;
    for (uint64_t i = first; i < first + count && i < tape.packets.size(); ++i)
      batch.append(tape.packets[i], tape.extra(tape.packets[i]));
    return llvm::Error::success();
  }
  llvm::Error readWindow(uint64_t n, PacketBatch &batch) override {
    return readPackets(windowTable.at(n).firstPacket, windowTable.at(n).packetCount, batch);
  }
  llvm::Error readBlockFrom(uint64_t first, PacketBatch &batch) override {
    if (failReads)
      return failTape("bad-block", "a block is damaged");
    return readPackets(first, blockPackets - first % blockPackets, batch);
  }
  llvm::Expected<llvm::ArrayRef<uint8_t>> blob(BlobId id) override {
    auto it = blobs.find({id.hi, id.lo});
    if (it == blobs.end())
      return failTape("no-such-blob", "a content is missing");
    return llvm::ArrayRef<uint8_t>(it->second);
  }
  uint64_t keyframeCount() const override { return 0; }
  llvm::Expected<Keyframe> keyframe(uint64_t) override {
    return failUsage("no-such-keyframe", "there is none");
  }
  llvm::Expected<std::vector<TriggerRecord>> triggers() override { return std::vector<TriggerRecord>(); }

private:
  Manifest facts;
  TapeSummary sum;
  Outcome end;
};

} // namespace tapeback::test
