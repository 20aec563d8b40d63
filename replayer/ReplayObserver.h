// What looks at a replay from outside while it runs, and may stop it: a second target in lockstep, a prompt,
// registers read after a failure.
#pragma once

#include "format/Packet.h"
#include "replayer/Observation.h"
#include "llvm/Support/Error.h"

namespace tapeback {

class Player;
struct ReplayReport;
struct StartState;

/// Called by replayTape() in its thread, once for each run of packets that is issued together, so that what
/// it costs does not depend on their number. Every call may do nothing. An error ends the replay with it.
class ReplayObserver {
public:
  virtual ~ReplayObserver() = default;

  /// The targets are at the start of the tape, and nothing was issued yet.
  virtual llvm::Error started(Player &player, const StartState &start) {
    (void)player, (void)start;
    return llvm::Error::success();
  }
  /// Packets [begin, end) of the batch could be issued together. Returns an index above `begin` and at most
  /// `end`: what lies before it may be; before() is called for what comes there.
  virtual size_t edge(const PacketBatch &batch, size_t begin, size_t end) {
    (void)batch, (void)begin;
    return end;
  }
  /// Packet `index` of the batch is the next to be issued; `index` may be batch.packets.size() only at the
  /// end of the range. False ends the replay here, as if the range ended before this packet.
  virtual llvm::Expected<bool> before(const PacketBatch &batch, size_t index, Player &player,
                                      const ReplayReport &report) {
    (void)batch, (void)index, (void)player, (void)report;
    return true;
  }
  /// Packets [begin, begin + count) were issued and graded; `log` says what came of them.
  virtual llvm::Error issued(const PacketBatch &batch, size_t begin, size_t count, const ObservationLog &log,
                             Player &player) {
    (void)batch, (void)begin, (void)count, (void)log, (void)player;
    return llvm::Error::success();
  }
  /// Nothing will be issued any more; the targets are as the last packet left them.
  virtual llvm::Error ended(Player &player, ReplayReport &report) {
    (void)player, (void)report;
    return llvm::Error::success();
  }
  /// Packets must be issued one by one, so that stopping at a difference means that nothing was issued after
  /// it.
  virtual bool oneByOne() const { return false; }
};

} // namespace tapeback
