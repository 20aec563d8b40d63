// Everything that a recording left behind beside its unfinished tape, for `recover`.
#pragma once

#include "format/RecoverTail.h"
#include "recorder/durable/LogTail.h"
#include "recorder/durable/RingTail.h"
#include <memory>

namespace tapeback {

/// A Usage failure if `path` is the ring of a recording (or its folder) instead of an unfinished tape: it
/// says which that is, or that a recording in flight mode has none.
llvm::Error refuseRing(const std::string &path);

/// One thread. Nothing that it finds is changed or removed.
class LeftBehind : public RecoverTail {
public:
  /// Looks for what belongs to the tape at `partial`. What is there and cannot be used is told in the notes
  /// of the recovery. `ring`: the ring's file or folder; empty: found by itself.
  explicit LeftBehind(const std::string &partial, const std::string &ring = {});

  void tookManifest(const Manifest &manifest) override;
  void tookDevice(const DeviceRecord &device) override;
  void tookSpace(llvm::StringRef name) override;
  void tookClock(const TapeClock &clock) override;
  void took(const Packet &packet, const PacketExtra &extra) override;
  llvm::Expected<Result> append(TapeWriter &writer) override;
  llvm::Expected<Result> appendPending(TapeWriter &writer) override;

private:
  void note(llvm::Error error);

  std::vector<std::string> notes;
  std::unique_ptr<LogTail> log; ///< Null: none.
  bool logIsForeign = false;
  std::unique_ptr<RingTail> ring;
};

} // namespace tapeback
