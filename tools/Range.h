// The one way to name a part of a tape on a command line.
//
//   range := point | point ".." point
//   point := "w" N            window N, all its packets
//          | "p" N            packet N
//          | "@" NAME         from the first marker of that name up to the next marker of any name
//          | "@" NAME "#" K   the K-th marker of that name, counting from 1
//          | "start" | "end"  the first and the last packet
//
// Both ends are included: w100..w140 is 41 windows, p5000..end goes on to the last packet, @load..@run goes
// from the first packet after marker "load" to the last one before the marker that follows "run". A name with
// "..", "#" or a quote in it is written in double quotes, with \" and \\ for those two: @"a..b"#2. Numbers as
// everywhere: 0x…, 1_000.
#pragma once

#include "format/TapeReader.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace tapeback {

/// One end of a range, as written.
struct RangePoint {
  enum class Kind { Window, Packet, Marker, Start, End } kind = Kind::Start;
  uint64_t number = 0; ///< Window, Packet: which. Marker: the occurrence, from 1.
  std::string name;    ///< Marker.
  bool operator==(const RangePoint &) const = default;
};

struct RangeExpression {
  RangePoint first, last;
  bool operator==(const RangeExpression &) const = default;
};

/// Only the grammar. Class Usage; `where` is the column in `text`.
llvm::Expected<RangeExpression> parseRange(llvm::StringRef text);

/// A range of a given tape: never empty unless the tape is.
struct TapeRange {
  uint64_t firstPacket = 0, packetCount = 0;
  uint64_t firstWindow = 0, windowCount = 0; ///< The windows that these packets lie in, wholly or in part.
};

/// Finds the places on the tape. Reads the whole tape only if a marker is named. Class Usage if there is no
/// such place (the hint says what there is) or if it ends before it starts.
llvm::Expected<TapeRange> resolveRange(const RangeExpression &range, TapeReader &reader);
llvm::Expected<TapeRange> resolveRange(llvm::StringRef text, TapeReader &reader);
/// The whole tape.
TapeRange wholeTape(TapeReader &reader);

} // namespace tapeback
