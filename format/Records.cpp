// Signatures, and how records are spelled for people.
#include "format/Records.h"

namespace tapeback {

std::string toHex(const Digest &digest) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * digest.size());
  for (uint8_t byte : digest) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

void LossSummary::add(const Packet &loss) {
  // A cause of a later version that does not fit the type is a loss all the same.
  const auto cause = loss.address <= UINT8_MAX ? static_cast<LossCause>(loss.address) : LossCause::Unknown;
  uint64_t &sum = packets[cause];
  sum = loss.value > unknownCount - sum ? unknownCount : sum + loss.value;
}

SignatureMatch matchSignatures(const Signature &a, const Signature &b) {
  if (a.oracle != b.oracle || a.name != b.name)
    return SignatureMatch::None;
  const bool samePlace = a.object == b.object && a.field == b.field && a.offset == b.offset &&
                         a.marker == b.marker && a.markerOccurrence == b.markerOccurrence &&
                         a.command == b.command;
  if (!samePlace)
    return SignatureMatch::SameKind;
  return a.xorClass == b.xorClass ? SignatureMatch::Exact : SignatureMatch::SamePlace;
}

const char *signatureMatchName(SignatureMatch match) {
  switch (match) {
  case SignatureMatch::None: return "none";
  case SignatureMatch::SameKind: return "same-kind";
  case SignatureMatch::SamePlace: return "same-place";
  case SignatureMatch::Exact: return "exact";
  }
  return "none";
}

} // namespace tapeback
