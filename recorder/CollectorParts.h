// Private parts of the Collector, shared by its two files.
#pragma once

#include "recorder/Collector.h"

namespace tapeback {

struct Collector::Device {
  CollectorDevice facts;
  uint16_t index = 0;                  ///< In the capture table, and in records.
  uint16_t number = 0;                 ///< On the tape: in the order of opening.
  std::vector<std::string> spaceNames; ///< By the program's number.
  std::vector<uint16_t> spaces;        ///< Tape space ids by the same; notUsed until a record names it.
  static constexpr uint16_t notUsed = 0xffff;
  std::optional<uint8_t> clock; ///< Of the tape, once the device's was read.
  bool keyframeDue = false; ///< It was just opened: the first packet of the program gets a keyframe in front.
  std::unique_ptr<ShadowState> shadow; ///< Null until it was opened: it then has its number.

  // The last marker that is on the tape (the shadow state counts those before the start as well).
  std::string marker;
  uint64_t occurrence = 0, commandsBefore = 0;
  std::unordered_map<std::string, uint64_t> occurrences;

  const Description *description() const { return facts.description ? &*facts.description : nullptr; }
};

} // namespace tapeback
