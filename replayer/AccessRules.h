// What the description says about an access: which register, compared in which bits, and what must not be
// done.
#pragma once

#include "hal/description/Description.h"
#include <vector>

namespace tapeback {

/// For one (space, address, width). Masks are in the bits of the access, not of the register.
struct AccessRule {
  const RegisterDescription *reg = nullptr; ///< The lowest register touched; null if none is described.
  uint64_t compareMask = ~uint64_t(0);      ///< Bits that are compared; bits above the width are clear.
  bool ignore = false;                      ///< Policy ignore on all of it: not compared at all.
  /// Never written unless the user says this name, of a register or of a range; null if it may be.
  const std::string *forbidden = nullptr;
  bool mayHang = false;
  bool substitute = false;   ///< Its value is of this run, and handed on in place of the recorded one …
  bool flows = false;        ///< … and the description says where to.
  bool carries = false;      ///< Whole, and such a value flows into it.
  bool acknowledges = false; ///< Whole: causes of an interrupt, which writing 1 clears.
  bool startsWork = false;   ///< Whole: writes start an activity or a reset, or hand entries of a queue over.
  bool tellsDone = false;    ///< Whole: some of its values say that something is done (`done`, `idle`) …
  bool tellsCause = false;   ///< … or why an interrupt came.
  bool readsChange = false;  ///< A read of some of it changes something.
  uint64_t pollMask = 0;     ///< Bits that a loop of reads may be waiting for; 0: never a poll.
  bool pollUntil = false;    ///< Reads are turns of a hand-made poll loop.
  bool branching = false;    ///< The program looks at it to decide what to do next.
  bool whole = false;        ///< All of `reg` and nothing else.
  bool progress = false;     ///< Whole, and it tells how far a queue is: reached is as good as equal.
};

/// Finds and remembers rules. One per device, one thread. Bounded: a hostile tape that touches every address
/// costs time, not memory.
class AccessRules {
public:
  /// `description` may be null: then everything is compared and nothing forbidden. Both must outlive this.
  /// `spaces`: tape space ids to names. `allowed`: registers and ranges that may be written although
  /// forbidden.
  AccessRules(const Description *description, std::vector<std::string> spaces,
              std::vector<std::string> allowed);

  /// Valid until the next call.
  const AccessRule &find(uint16_t space, uint64_t address, unsigned width);

private:
  const std::string *forbids(llvm::StringRef space, uint64_t address, const RegisterDescription *reg) const;
  AccessRule compute(uint16_t space, uint64_t address, unsigned width) const;

  struct Slot {
    uint64_t address = 0;
    uint16_t space = 0;
    uint8_t width = 0;
    bool used = false;
    AccessRule rule;
  };
  static constexpr size_t slotCount = 1024;

  const Description *description;
  std::vector<std::string> spaces;
  std::vector<std::string> allowed;
  std::vector<Slot> slots; ///< Direct mapped.
};

/// A read of it does something, so that it is never repeated, and never made without need.
bool isChangedByReads(const RegisterDescription &reg);

/// Of a read that gave `value`: the bits of the register that say that something is done (`done`, `idle`),
/// and those that say why an interrupt came or is to come. 0 where the rule does not say `tellsDone`,
/// `tellsCause`.
uint64_t bitsThatTellDone(const Description &description, const AccessRule &rule, uint64_t value);
uint64_t bitsThatTellCause(const Description &description, const AccessRule &rule, uint64_t value);

/// All ones of an access of `width` bytes.
constexpr uint64_t widthMask(unsigned width) {
  return width >= 8 ? ~uint64_t(0) : (uint64_t(1) << (8 * width)) - 1;
}

} // namespace tapeback
