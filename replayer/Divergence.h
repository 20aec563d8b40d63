// Where two runs of a tape part, in words and numbers that a person can go and look at.
#pragma once

#include "replayer/Comparison.h"
#include "replayer/Player.h"
#include "replayer/TapeSource.h"
#include <optional>
#include <string>

namespace tapeback {

/// A packet of a tape and where in the workload it is.
struct PacketPlace {
  uint16_t device = 0, thread = 0;
  uint64_t window = 0, packet = 0;
  std::optional<std::string> marker; ///< The last one of the device before the packet.
  uint64_t markerOccurrence = 0;
  std::optional<uint64_t>
      command;             ///< Commands of the device since that marker (or the start), up to the packet.
  std::string commandText; ///< What of a queue it is: "q0 #12 DMA_STORE host=0x1000 …"; empty if nothing.
};

/// "expected" is what the tape recorded, or the good target; "actual" the replay, or the bad target.
struct Divergence {
  PacketPlace place;
  Grade grade = Grade::Mismatch;
  Rule rule = Rule::ValueDiffers;
  std::string kind;  ///< Of the packet: "register-read".
  std::string space; ///< "bar0", "memory", or an internal window's name.
  uint64_t address = 0;
  std::string reg, field;         ///< Empty: none.
  std::optional<uint64_t> offset; ///< First wrong byte: of the content, or of the register's access.
  std::optional<uint64_t> expected, actual; ///< Register: the values; content: the bytes at `offset`.
  bool prefix = false;                      ///< In a pinned prefix.
  bool concurrent = false;                  ///< Not ordered with what other threads did at the time.
  bool poisoned = false;                    ///< The wrong byte is the poison: nothing wrote it in this run.
  std::string failure;                      ///< What the target said, if it failed; what came too late.
  std::optional<VainWait> wait;             ///< What was waited for.
};

/// Everything but marker and command, which take a walk over the tape (completePlace).
Divergence describeDivergence(const TapeSource &source, ComparisonContext context, const Packet &packet,
                              uint64_t ordinal, uint64_t window, const Comparison &comparison,
                              const VainWait *wait = nullptr);

/// Walks the tape up to the packet to find marker and command, and looks what the command says.
llvm::Error completePlace(TapeSource &source, PacketPlace &place);

/// "window 12, packet 345 (register-read bar0 STATUS.COMPUTING at 0x20): recorded 0x1, replayed 0x0".
std::string divergenceText(const Divergence &divergence, llvm::StringRef expectedName = "recorded",
                           llvm::StringRef actualName = "replayed");

} // namespace tapeback
