// diff: two tapes side by side, without any target. Packets go together by marker, span and command; what
// goes together is compared by the description's rules, and addresses by what they point at.
#pragma once

#include "replayer/Divergence.h"
#include "replayer/Replay.h"
#include <map>

namespace tapeback {

/// In what two runs can differ.
enum class DiffKind : uint8_t {
  Value,     ///< The device answered otherwise.
  Content,   ///< Memory that the device had written has another content.
  Input,     ///< The host told the device something else: a register, memory, a command.
  Address,   ///< The host's memory is another buffer, or another place in it.
  Condition, ///< The program waited for something else.
  Outcome,   ///< It failed, timed out or hung in one of them only.
  Check,     ///< A check of the program came out otherwise.
  Deleted,   ///< Only the first tape has it.
  Inserted,  ///< Only the second tape has it.
};
constexpr unsigned diffKindCount = 9;
const char *diffKindName(DiffKind kind); ///< "value", …

struct TapeDifference {
  DiffKind kind = DiffKind::Value;
  /// Its place is the first tape's; of something inserted, that of the packet before which it would stand.
  /// `expected` is the first tape's, `actual` the second's.
  Divergence what;
  /// In the second tape; of something deleted, where it would stand.
  PacketPlace placeB;
  uint64_t count = 1; ///< Inserted, deleted: packets in a row.
};

struct DiffOptions {
  size_t keptDifferences = 64;
  size_t pieceItems = 1 << 16; ///< Packets of a stream that are aligned at a time.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

struct DiffReport {
  Verdict verdict = Verdict::Match;
  std::optional<TapeDifference> first;          ///< The earliest on the first tape.
  std::vector<TapeDifference> differences;      ///< The first few, by place on the first tape.
  std::array<uint64_t, diffKindCount> counts{}; ///< By kind, in packets.
  uint64_t aligned = 0, exact = 0;
  std::map<std::string, uint64_t> tolerated;   ///< By rule.
  std::map<std::string, uint64_t> notCompared; ///< By reason.
  uint64_t evidenceA = 0, evidenceB = 0;       ///< Packets of the recorder itself, which are not aligned.
  bool relocated = false;                      ///< Some memory lies elsewhere.
  struct Fact {
    std::string key, a, b; ///< Empty: not stated.
  };
  std::vector<Fact> facts; ///< Of manifests and devices, that differ. They decide nothing.
  SignatureMatch signatureMatch = SignatureMatch::None; ///< Of the two recorded failures.
  std::vector<std::string> notes;

  uint64_t total() const {
    uint64_t sum = 0;
    for (uint64_t count : counts)
      sum += count;
    return sum;
  }
};

/// Compares the tapes; the description of the first one counts for both. Errors are the tapes'.
llvm::Expected<DiffReport> diffTapes(std::unique_ptr<TapeSource> a, std::unique_ptr<TapeSource> b,
                                     const DiffOptions &options);

/// 0 they do not differ, 1 they do, 5 something could not be compared.
int exitCodeFor(const DiffReport &report);

/// "value: window 3, packet 17 (register-read bar0 STATUS at 0x20): 0x1, 0x0".
std::string differenceText(const TapeDifference &difference);

} // namespace tapeback
