// The last so many packets, bytes or seconds of a recording, in bounded memory: a tape's writer that never
// writes. A capture takes a snapshot of it.
//
// What is evicted are packets, never the state that later packets need: the history begins at its *base*, a
// place whose state is known as keyframes. A base that can be restored is looked for in what is to be
// evicted; until there is one, the packets from the present base on stay (the pinned prefix). If the prefix
// outgrows its bound, the base becomes a place that cannot be restored, and says why.
#pragma once

#include "format/PacketCodec.h"
#include "format/TapeReader.h"
#include "format/TapeWriter.h"
#include "hal/state/ShadowState.h"
#include "recorder/flight/FlightChunk.h"
#include "triggers/Capture.h"
#include <deque>
#include <unordered_map>

namespace tapeback {

struct FlightOptions {
  /// What is kept at least, as long as memory lasts. Bytes: of memory, contents included.
  triggers::CaptureAmount history{triggers::CaptureUnit::Packets, 1'000'000};
  uint64_t memoryBytes = uint64_t(256) << 20; ///< Of packets and contents, together with captures under way.
  uint64_t prefixBytes = uint64_t(64) << 20;  ///< Of these: the most that a pinned prefix takes.
  uint32_t chunkPackets = 16384;
  uint64_t maxWindowPackets = 4096; ///< As WriterOptions has it.
};

/// Why a history is shorter than it was asked to be.
struct FlightStatus {
  uint64_t packets = 0, bytes = 0; ///< Now, from the base on.
  uint64_t evicted = 0;            ///< Packets that are gone.
  uint64_t evictedEarly = 0;       ///< Of these: gone before the asked history was over, for want of memory.
  uint64_t prefixDropped = 0;      ///< Times a pinned prefix outgrew its bound.
  bool restorable = true;          ///< The state at the base can be established.
  std::string reason;              ///< If not: why.
};

/// One thread; snapshots may be read by others. Memory: FlightOptions::memoryBytes and one chunk (at most 104
/// bytes a packet), and for the state at the base what ShadowLimits say, for each device.
class FlightHistory final : public TapeWriter, public triggers::CaptureHistory {
public:
  /// `through` gets everything, too (and must outlive this); null: nothing is written.
  FlightHistory(Manifest manifest, FlightOptions options, TapeWriter *through = nullptr);
  ~FlightHistory() override;

  // TapeWriter.
  llvm::Expected<uint16_t> addDevice(const DeviceRecord &device) override;
  llvm::Expected<uint16_t> addSpace(llvm::StringRef name) override;
  llvm::Expected<uint8_t> addClock(const TapeClock &clock) override;
  llvm::Expected<BlobId> blob(llvm::ArrayRef<uint8_t> content) override;
  bool hasBlob(BlobId id) const override;
  llvm::Error append(const Packet &packet, const PacketExtra &extra) override;
  llvm::Error append(const Packet &packet) override { return append(packet, PacketExtra()); }
  llvm::Error append(llvm::ArrayRef<Packet> packets) override;
  llvm::Error endWindow(bool quiescent) override;
  llvm::Error keyframe(Keyframe keyframe) override;
  llvm::Error trigger(uint64_t packet, llvm::StringRef text) override;
  llvm::Error foreignBlock(uint16_t type, llvm::ArrayRef<uint8_t> raw) override;
  llvm::Error flush() override;
  llvm::Expected<TapeSummary> finish(const Outcome &outcome) override;
  void discard() override;
  uint64_t packetCount() const override { return count; }
  uint64_t windowCount() const override { return closedWindows; }
  uint64_t bytesWritten() const override { return through ? through->bytesWritten() : 0; }

  // CaptureHistory.
  uint64_t first() const override { return base.packet; }
  uint64_t end() const override { return count; }
  llvm::Expected<Facts> facts(uint64_t packet) override;
  llvm::Expected<Window> windowOf(uint64_t packet) override;
  bool startsWindow(uint64_t packet) const;
  static Facts factsOf(const Packet &packet, const PacketExtra &extra);

  /// Nothing from `packet` on is evicted; ~0: nothing is held. What is held counts against the bound all the
  /// same: overfull() says when it is met.
  void hold(uint64_t packet) { held = packet; }
  bool overfull() const { return full; }

  /// Packets [base, end) as a tape that begins in the middle of a run: its packet 0 is a Loss that says how
  /// many came before, unless none did. Its packet of `packet` is snapshotOrdinal(packet). Independent of the
  /// history from then on.
  llvm::Expected<std::unique_ptr<TapeReader>> snapshot(uint64_t end, const Outcome &outcome);
  uint64_t snapshotOrdinal(uint64_t packet) const { return packet - base.packet + (base.packet ? 1 : 0); }

  const Outcome &outcome() const { return result; }
  FlightStatus status() const;

private:
  struct WindowStart {
    uint64_t first = 0;
    bool quiet = false; ///< The window before it ended quiescent.
  };
  struct Base {
    uint64_t packet = 0;
    std::vector<Keyframe> keyframes;
    std::vector<FlightContentPointer> contents;
    bool restorable = true;
    std::string reason;
  };
  struct IdHash {
    size_t operator()(const BlobId &id) const { return size_t(id.lo); }
  };

  FlightContentPointer find(BlobId id) const;
  FlightContentPointer store(llvm::ArrayRef<uint8_t> content);
  void counted(uint64_t packets);
  llvm::Error seal();
  llvm::Error evict();
  bool unwanted(const FlightChunk &chunk) const;
  llvm::Error walk(const FlightChunk &chunk);
  llvm::Expected<bool> tryBase(uint64_t packet, bool force);
  llvm::Error decode(const FlightChunk &chunk, PacketBatch &batch);
  void dropBeforeBase();
  uint64_t bytes() const { return live->load(std::memory_order_relaxed); }

  Manifest manifest;
  FlightOptions options;
  TapeWriter *through;
  LiveBytes live = std::make_shared<std::atomic<uint64_t>>(0);

  // Tables.
  std::vector<DeviceRecord> devices;
  std::vector<std::string> spaces{"memory"};
  std::vector<TapeClock> clocks{{"host-monotonic", 1'000'000'000}};

  // Packets.
  uint64_t count = 0, closedWindows = 0;
  PacketBatch open;
  std::vector<FlightContentPointer> openContents;
  FlightContentPointer staged; ///< Stored last, and not referred to yet.
  PacketEncoder encoder;
  PacketDecoder decoder;
  std::deque<FlightChunkPointer> chunks;
  std::deque<WindowStart> windows{{0, true}};
  std::deque<TapeReader::TriggerRecord> triggerMarks;
  std::unordered_map<BlobId, std::weak_ptr<const FlightContent>, IdHash> known;
  size_t sweepAt = 4096;
  PacketBatch looked; ///< A decoded chunk, for facts().
  TapeSummary sums;
  Outcome result;
  bool finished = false;

  // Eviction.
  uint64_t held = ~uint64_t(0);
  bool full = false;
  Base base;
  size_t walked = 0; ///< Of `chunks`: those that the shadow states below have seen.
  uint64_t evictedEarly = 0, prefixDropped = 0;
  std::deque<std::optional<Description>> descriptions; ///< Stable addresses.
  std::vector<std::unique_ptr<ShadowState>> shadows;
  PacketBatch walking;
};

} // namespace tapeback
