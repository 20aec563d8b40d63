// One AXI or AXI-Lite port seen through its wires: handshakes become accesses.
#pragma once

#include "recorder/import/ImportOutput.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <array>
#include <deque>
#include <map>

namespace tapeback {

/// The wires of a port, by the names that AXI gives them (in lower case, without a prefix).
enum class AxiWire : uint8_t {
  AwValid,
  AwReady,
  AwAddr,
  AwLen,
  AwSize,
  AwBurst,
  AwId,
  WValid,
  WReady,
  WData,
  WStrb,
  WLast,
  BValid,
  BReady,
  BResp,
  BId,
  ArValid,
  ArReady,
  ArAddr,
  ArLen,
  ArSize,
  ArBurst,
  ArId,
  RValid,
  RReady,
  RData,
  RResp,
  RLast,
  RId,
};
constexpr unsigned axiWireCount = 29;
const char *axiWireName(AxiWire wire);

/// A value of up to 1024 bits. Unknown once a bit is x or z. Nearly all have no more than 64, which are quick
/// to set and to copy.
class WireValue {
public:
  bool unknown = true; ///< Nothing was seen yet.

  uint64_t low() const { return first; }
  bool isHigh() const { return !unknown && (first & 1); }
  uint8_t byte(uint64_t lane) const {
    const uint64_t word = lane / 8;
    return uint8_t((word == 0 ? first : word <= more.size() ? more[word - 1] : 0) >> (8 * (lane % 8)));
  }
  void set(uint64_t bits, bool known) {
    first = bits;
    unknown = !known;
    if (LLVM_UNLIKELY(!more.empty()))
      more.clear();
  }
  /// Bits as they are written, highest first.
  void set(llvm::StringRef bits);
  void set(const WireValue &other) {
    first = other.first;
    unknown = other.unknown;
    if (LLVM_UNLIKELY(!more.empty() || !other.more.empty()))
      more = other.more;
  }

private:
  uint64_t first = 0;
  llvm::SmallVector<uint64_t, 0> more; ///< Low first; those that are missing are zero.
};

/// Reads of the bus become RegisterReads (at most 8 bytes a beat) or MemoryReads (more), writes likewise: one
/// packet a beat, issued when the address was accepted, complete when the response was. SLVERR and DECERR are
/// failures. Lanes that the strobes leave out are not written. Order on the tape is that of completion.
class AxiPort {
public:
  std::string name;                          ///< The device's alias.
  std::array<int, axiWireCount> wires;       ///< Indices of the values; -1: not there.
  std::array<unsigned, axiWireCount> bits{}; ///< Widths.
  bool usable(std::string &why) const;       ///< Has a whole read or a whole write side.

  AxiPort() { wires.fill(-1); }

  /// A rising edge of the clock: what the wires carried just before it. `time` in the clock's units.
  void edge(llvm::ArrayRef<WireValue> values, uint64_t time, ImportOutput &out, llvm::StringRef space);
  /// What was never answered.
  void end(ImportOutput &out, llvm::StringRef space);

private:
  struct Request {
    uint64_t address = 0, time = 0, beats = 1, size = 0, beat = 0;
    unsigned burst = 1;
  };
  struct Beat {
    WireValue data;
    uint64_t strobes = ~uint64_t(0);
    bool last = false;
  };
  struct Write {
    Request request;
    std::vector<Beat> beats;
    uint64_t id = 0;
    bool whole = false;
  };

  bool handshake(llvm::ArrayRef<WireValue> values, AxiWire valid, AxiWire ready) const;
  const WireValue *value(llvm::ArrayRef<WireValue> values, AxiWire wire) const;
  uint64_t number(llvm::ArrayRef<WireValue> values, AxiWire wire, uint64_t otherwise) const;
  Request request(llvm::ArrayRef<WireValue> values, AxiWire address, AxiWire length, AxiWire size,
                  AxiWire burst, unsigned dataBits, uint64_t time, ImportOutput &out) const;
  static uint64_t addressOf(const Request &request, uint64_t beat);
  bool begin(ImportOutput &out, llvm::StringRef space);
  void readBeat(llvm::ArrayRef<WireValue> values, uint64_t time, ImportOutput &out);
  void feedWrites();
  void finishWrite(const Write &write, uint64_t time, bool failed, bool pending, ImportOutput &out);
  void emit(bool write, const Request &request, uint64_t beat, const WireValue *data, uint64_t strobes,
            uint64_t time, Completion completion, ImportOutput &out);

  std::map<uint64_t, std::deque<Request>> reads; ///< By id.
  std::deque<Write> writes;                      ///< Addresses accepted, not answered.
  std::deque<Beat> data;                         ///< Accepted before their address.
  uint64_t outstandingReads = 0;
  bool started = false;
  uint16_t device = 0, spaceId = 0;
};

} // namespace tapeback
