// Numbers of a tape that can be made smaller without taking packets away: how much is moved.
#pragma once

#include "replayer/reduce/Candidate.h"

namespace tapeback {

/// The length of a row, or the number of rows, of what is moved: by a transfer (with the register or the
/// field of the command that says so, its completions, and the content that was handed over for it), or by
/// one packet alone (contents that the host stores or reads).
struct Length {
  std::vector<uint32_t> packets; ///< That are cut together.
  bool isRows = false;           ///< Otherwise bytes of a row.
  uint64_t present = 0;
  std::optional<uint32_t> registerWrite;
  std::optional<std::pair<uint32_t, unsigned>> entry; ///< Submit, field of its form.

  void set(Selection &selection, uint64_t value) const;
};

/// Those above 1 of the packets that are kept, the tape's last ones first. Transfers of lists are not among
/// them. Errors: the tape's.
llvm::Expected<std::vector<Length>> findLengths(const TapeImage &image, const Selection &selection);

} // namespace tapeback
