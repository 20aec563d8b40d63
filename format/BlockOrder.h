// The legal order of blocks, as a table. The verifier follows it; the writer is tested against it. Internal
// to format/.
#pragma once

#include "format/Layout.h"

namespace tapeback {

/// What may come after a block. Rows: the last known block ("Start": none yet). Columns: the next known
/// block. Why it is so: the manifest comes first so that a cut tape still says what it is; tables, blobs and
/// packets mix because a writer learns of them in that order; the outcome closes what the root hash covers;
/// index and footer can be made again from the rest, so they come last.
class BlockOrder {
public:
  static constexpr unsigned states = blockTypeCount;

  /// True if a block of `type` may come next. Types of later versions may stand anywhere between manifest and
  /// footer, and change nothing.
  constexpr bool allows(uint16_t type) const {
    if (type == 0)
      return false;
    if (type >= blockTypeCount)
      return last != 0 && last != static_cast<uint16_t>(BlockType::Footer);
    return table[last][type];
  }
  constexpr void advance(uint16_t type) {
    if (type < blockTypeCount)
      last = type;
  }
  /// True if the tape may end here.
  constexpr bool complete() const { return last == static_cast<uint16_t>(BlockType::Footer); }
  constexpr uint16_t lastType() const { return last; } ///< 0 before the first block.
  /// True once Index or Footer was seen: the root hash is the chain before it.
  constexpr bool pastRoot() const {
    return last == static_cast<uint16_t>(BlockType::Index) ||
           last == static_cast<uint16_t>(BlockType::Footer);
  }

private:
  static constexpr bool table[states][blockTypeCount] = {
      //               -  Man Dev Pac Key Blo Tri Ora Ind Foo
      /* Start    */ {0, 1, 0, 0, 0, 0, 0, 0, 0, 0},
      /* Manifest */ {0, 0, 1, 1, 1, 1, 1, 1, 0, 0},
      /* Device   */ {0, 0, 1, 1, 1, 1, 1, 1, 0, 0},
      /* Packets  */ {0, 0, 1, 1, 1, 1, 1, 1, 0, 0},
      /* Keyframe */ {0, 0, 1, 1, 1, 1, 1, 1, 0, 0},
      /* Blob     */ {0, 0, 1, 1, 1, 1, 1, 1, 0, 0},
      /* Trigger  */ {0, 0, 1, 1, 1, 1, 1, 1, 0, 0},
      /* Oracle   */ {0, 0, 0, 0, 0, 0, 0, 0, 1, 1},
      /* Index    */ {0, 0, 0, 0, 0, 0, 0, 0, 1, 1},
      /* Footer   */ {0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
  };
  uint16_t last = 0;
};

} // namespace tapeback
