// Lets a Collector go on with a tape that another one began: the tape of a recovery.
#pragma once

#include "format/TapeWriter.h"
#include "recorder/durable/LogTail.h"
#include <deque>
#include <unordered_map>
#include <vector>

namespace tapeback {

/// A TapeWriter in front of the recovery's. The Collector behind it is new: it numbers devices, spaces and
/// packets from 0 and knows nothing of the state before. So numbers are translated, what the tape has already
/// is left out (each thread's packets are on it in the order in which they completed, up to one), windows are
/// never quiescent and there are no keyframes. One thread; `writer` must outlive it. Memory: 8 bytes a packet
/// appended, and the last 65,536 packets of the tape.
class ContinuedTape : public TapeWriter {
public:
  using TapeWriter::append;
  /// `log`, if not null, is told of everything that is added.
  explicit ContinuedTape(LogTail *log) : log(log) {}

  /// What the tape has, in its order.
  void tookDevice(const DeviceRecord &device) { aliases.push_back(device.alias); }
  void tookSpace(llvm::StringRef name) { spaceNames.push_back(name.str()); }
  void tookClock(const TapeClock &clock) { clockNames.push_back(clock.name); }
  void took(const Packet &packet);
  const std::vector<std::string> &devicesOnTape() const { return aliases; }

  /// From now on the Collector writes. Until ready() it only learns what was before, and nothing is written.
  void begin(TapeWriter &real) { writer = &real; }
  void ready() { learning = false; }
  uint64_t packetsAppended() const { return written; }
  uint64_t packetsKnown() const { return known; } ///< Left out, because the tape has them.

  llvm::Expected<uint16_t> addDevice(const DeviceRecord &device) override;
  llvm::Expected<uint16_t> addSpace(llvm::StringRef name) override;
  llvm::Expected<uint8_t> addClock(const TapeClock &clock) override;
  llvm::Expected<BlobId> blob(llvm::ArrayRef<uint8_t> content) override { return writer->blob(content); }
  bool hasBlob(BlobId id) const override { return writer->hasBlob(id); }
  llvm::Error append(const Packet &packet, const PacketExtra &extra) override;
  llvm::Error append(const Packet &packet) override { return append(packet, PacketExtra()); }
  llvm::Error endWindow(bool quiescent) override;
  llvm::Error keyframe(Keyframe keyframe) override;
  llvm::Error trigger(uint64_t packet, llvm::StringRef text) override;
  llvm::Error foreignBlock(uint16_t type, llvm::ArrayRef<uint8_t> raw) override;
  llvm::Error flush() override { return llvm::Error::success(); }
  /// The recovery finishes the tape.
  llvm::Expected<TapeSummary> finish(const Outcome &outcome) override;
  void discard() override {}
  uint64_t packetCount() const override { return ordinals.size(); }
  uint64_t windowCount() const override { return writer->windowCount(); }
  uint64_t bytesWritten() const override { return writer->bytesWritten(); }

private:
  struct Last {
    uint64_t time = 0, count = 0; ///< Packets of the thread that completed then.
  };
  struct Recent {
    uint64_t time, ordinal;
    uint16_t thread;
    PacketKind kind;
  };
  bool onTape(const Packet &packet);
  uint64_t recentOrdinal(const Packet &packet) const;

  LogTail *log;
  TapeWriter *writer = nullptr;
  bool learning = true;
  std::vector<std::string> aliases, spaceNames{"memory"}, clockNames{"host-monotonic"};
  std::vector<uint16_t> devices, spaces{0}; ///< The Collector's numbers to the tape's.
  std::unordered_map<uint16_t, Last> last;  ///< By thread.
  std::deque<Recent> recent;
  uint64_t taken = 0, written = 0, known = 0;
  std::vector<uint64_t> ordinals; ///< The Collector's packets to the tape's; noLink: not on it.
};

} // namespace tapeback
