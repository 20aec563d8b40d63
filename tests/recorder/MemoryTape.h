// A tape in memory, as strict as the real writer: for tests and fuzzers of what is written.
#pragma once

#include "format/Failure.h"
#include "format/TapeWriter.h"
#include "llvm/Support/xxhash.h"
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tapeback::test {

class MemoryTape : public TapeWriter {
public:
  struct Window {
    uint64_t first, count;
    bool quiescent;
  };
  std::vector<DeviceRecord> devices;
  std::vector<std::string> spaces{"memory"};
  std::vector<Packet> packets;
  std::vector<PacketExtra> extras;
  std::vector<Window> windows;
  std::vector<Keyframe> keyframes;
  std::vector<std::pair<uint64_t, std::string>> triggers;
  std::map<std::pair<uint64_t, uint64_t>, std::vector<uint8_t>> blobs;
  std::optional<Outcome> outcome;
  unsigned flushes = 0;
  uint64_t failAfter = ~uint64_t(0); ///< Packets after which every call fails, as on a full disk.
  std::string violation;             ///< The first call that the real writer would have refused.

  std::string text(const PacketExtra &extra) const {
    auto it = blobs.find({extra.payload.hi, extra.payload.lo});
    return it == blobs.end() ? "" : std::string(it->second.begin(), it->second.end());
  }

  llvm::Expected<uint16_t> addDevice(const DeviceRecord &device) override {
    devices.push_back(device);
    return uint16_t(devices.size() - 1);
  }
  llvm::Expected<uint16_t> addSpace(llvm::StringRef name) override {
    spaces.push_back(name.str());
    return uint16_t(spaces.size() - 1);
  }
  llvm::Expected<uint8_t> addClock(const TapeClock &) override { return uint8_t(1); }
  llvm::Expected<BlobId> blob(llvm::ArrayRef<uint8_t> content) override {
    if (full())
      return diskFull();
    auto hash = llvm::xxh3_128bits(content);
    blobs[{hash.high64, hash.low64}].assign(content.begin(), content.end());
    return BlobId{hash.high64, hash.low64};
  }
  bool hasBlob(BlobId id) const override { return blobs.count({id.hi, id.lo}); }
  using TapeWriter::append; // Runs of packets, one by one.
  llvm::Error append(const Packet &packet, const PacketExtra &extra) override {
    if (full())
      return diskFull();
    if (packet.device >= std::max<size_t>(devices.size(), 1))
      return violate("unknown device");
    if (packet.space >= spaces.size())
      return violate("unknown space");
    if (extra.payload && !hasBlob(extra.payload))
      return violate("unknown payload");
    if (linksToPacket(packet.kind) && extra.link != noLink && extra.link >= packets.size())
      return violate("link to a later packet");
    packets.push_back(packet);
    extras.push_back(extra);
    return llvm::Error::success();
  }
  llvm::Error append(const Packet &packet) override { return append(packet, {}); }
  llvm::Error endWindow(bool quiescent) override {
    uint64_t first = windows.empty() ? 0 : windows.back().first + windows.back().count;
    if (packets.size() > first)
      windows.push_back({first, packets.size() - first, quiescent});
    return llvm::Error::success();
  }
  llvm::Error keyframe(Keyframe keyframe) override {
    (void)llvm::errorToBool(endWindow(keyframe.restorable));
    keyframe.packet = packets.size();
    keyframes.push_back(std::move(keyframe));
    return llvm::Error::success();
  }
  llvm::Error trigger(uint64_t packet, llvm::StringRef text) override {
    if (packet >= packets.size())
      return violate("trigger at a packet that is not there");
    triggers.emplace_back(packet, text.str());
    return llvm::Error::success();
  }
  llvm::Error foreignBlock(uint16_t, llvm::ArrayRef<uint8_t>) override { return llvm::Error::success(); }
  llvm::Error flush() override {
    if (full())
      return diskFull();
    ++flushes;
    return llvm::Error::success();
  }
  llvm::Expected<TapeSummary> finish(const Outcome &given) override {
    (void)llvm::errorToBool(endWindow(false));
    if (given.packet && *given.packet >= packets.size())
      return violate("outcome at a packet that is not there");
    outcome = given;
    TapeSummary summary;
    summary.packets = packets.size();
    summary.windows = windows.size();
    return summary;
  }
  void discard() override {}
  uint64_t packetCount() const override { return packets.size(); }
  uint64_t windowCount() const override { return windows.size(); }
  uint64_t bytesWritten() const override { return 0; }

private:
  bool full() const { return packets.size() >= failAfter; }
  static llvm::Error diskFull() { return failSystem("disk-full", "no space left"); }
  llvm::Error violate(const char *what) {
    if (violation.empty())
      violation = what;
    return failUsage("bad-packet", what);
  }
};

} // namespace tapeback::test
