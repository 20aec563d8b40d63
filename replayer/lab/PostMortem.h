// After a failure, and before anything resets the device: what its registers say.
#pragma once

#include "replayer/DeviceBinding.h"
#include "replayer/ReplayObserver.h"

namespace tapeback {

struct PostMortemValue {
  uint16_t device = 0;
  std::string reg;
  std::optional<uint64_t> value; ///< Nothing: it could not be read.
  std::string fields;            ///< "BUSY=1 ERROR=3": those that are not 0.
  std::string failure;           ///< Why not.
};

/// Reads the description's post-mortem list once, when the replay has seen a failure (a packet that differs,
/// a target that failed) and either a reset comes next or nothing comes any more. A tape without failure, and
/// a device without list, cost nothing.
class PostMortem : public ReplayObserver {
public:
  explicit PostMortem(const TapeSource &source);

  size_t edge(const PacketBatch &batch, size_t begin, size_t end) override;
  llvm::Expected<bool> before(const PacketBatch &batch, size_t index, Player &player,
                              const ReplayReport &report) override;
  llvm::Error ended(Player &player, ReplayReport &report) override;

  const std::vector<PostMortemValue> &values() const { return read; }
  /// The reset before which it was; nothing: at the end.
  std::optional<uint64_t> packet() const { return resetPacket; }

private:
  bool isReset(const Packet &packet) const;
  void look(Player &player);

  bool any = false; ///< Some device has a list.
  const TapeSource &source;
  /// Where the registers are whose write resets a device: most writes go elsewhere, and are asked no further.
  std::vector<uint64_t> resetAddresses;
  bool done = false;
  /// Packets that were gone through for resets, and the first found; scannedTo: none.
  uint64_t scannedFrom = 0, scannedTo = 0, nextReset = 0;
  std::optional<uint64_t> resetPacket;
  std::vector<PostMortemValue> read;
};

} // namespace tapeback
