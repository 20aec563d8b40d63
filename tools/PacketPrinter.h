// Packets for people and for scripts: one line of text or one JSON object each, with the names that the
// description on the tape gives to registers, fields, counters, activities and interrupts.
#pragma once

#include "format/TapeReader.h"
#include "hal/description/Description.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tapeback {

/// Text from a tape made fit for a terminal: control characters and what is not UTF-8 are escaped, in double
/// quotes.
std::string quoteUntrusted(llvm::StringRef text);

/// Uses the reader's blobs; one thread. Descriptions are parsed when first needed. What cannot be named is
/// printed as numbers; an unknown kind is printed with every field it has. Errors are the reader's (a damaged
/// block).
class PacketPrinter {
public:
  enum class Payload {
    None,    ///< Only its length and identity.
    Preview, ///< The first bytes.
    Whole,
  };

  explicit PacketPrinter(TapeReader &reader, Payload payload = Payload::Preview)
      : reader(reader), payload(payload), descriptions(reader.devices().size()) {}

  /// One line; with Payload::Whole, lines of hexadecimal below it.
  llvm::Error writeText(llvm::raw_ostream &os, uint64_t ordinal, uint64_t window, const Packet &packet,
                        const PacketExtra &extra);
  /// One object. At most `maxJsonPayload` bytes of payload, with "payload_truncated": true if there are more.
  llvm::Error writeJson(llvm::json::OStream &os, uint64_t ordinal, uint64_t window, const Packet &packet,
                        const PacketExtra &extra);
  /// The same as one line, for streams of lines. Nothing is written on error.
  llvm::Error writeJsonLine(llvm::raw_ostream &os, uint64_t ordinal, uint64_t window, const Packet &packet,
                            const PacketExtra &extra);
  static constexpr size_t maxJsonPayload = 1 << 20;
  static constexpr size_t previewBytes = 16;

  /// The device's description, or null if the tape has none that can be used.
  const Description *description(uint16_t device);
  /// The register that a register access or poll falls into, or null.
  const RegisterDescription *registerOf(const Packet &packet);
  /// What the entries of a Submit's queue look like, or null. Also of a MemoryWrite that has an element of a
  /// list (a descriptor) to which the commands and elements printed last have led.
  const LayoutDescription *layoutOf(const Packet &packet, const PacketExtra &extra);
  /// What a Submit submits ("GEMM"); "unknown" if its opcode is, or the description, or the content. Empty
  /// for other kinds.
  llvm::Expected<std::string> commandOf(const Packet &packet, const PacketExtra &extra);
  /// "bar0"; "space-N" if the tape's table has no such space.
  std::string spaceName(uint16_t space) const;

  /// What could not be used so far ("device 0: its description …"), once each.
  std::vector<std::string> takeWarnings() { return std::exchange(warnings, {}); }

private:
  struct Slot {
    bool tried = false;
    std::unique_ptr<Description> description;
  };

  /// What has to be fetched, and may fail, before anything is written. `content` is the reader's; of an entry
  /// it is there with Payload::None, too, since its decoding needs it.
  struct Fetched {
    std::string name;
    llvm::ArrayRef<uint8_t> content;
    const LayoutDescription *layout = nullptr; ///< Of an entry that has content.
  };
  /// Where the next element of a list lies.
  struct Element {
    uint16_t device;
    uint64_t address;
    const LayoutDescription *layout;
  };
  llvm::Expected<Fetched> fetch(const Packet &packet, const PacketExtra &extra);
  void writeObject(llvm::json::OStream &os, uint64_t ordinal, uint64_t window, const Packet &packet,
                   const PacketExtra &extra, const Fetched &fetched);
  uint64_t nanoseconds(const Packet &packet, uint64_t ticks) const;
  std::string place(const Packet &packet);
  std::string fields(const Packet &packet);
  std::string submission(const Packet &packet, const PacketExtra &extra, const Fetched &fetched);
  void writeEntry(llvm::json::OStream &os, const LayoutDescription &layout, llvm::ArrayRef<uint8_t> entry);
  void follow(const Packet &packet, const LayoutDescription &layout, llvm::ArrayRef<uint8_t> entry);
  std::string details(const Packet &packet, const PacketExtra &extra, const Fetched &fetched);
  llvm::Expected<std::string> name(const PacketExtra &extra);

  TapeReader &reader;
  Payload payload;
  std::vector<Slot> descriptions;
  std::vector<std::string> warnings;
  std::optional<Element> element;
};

} // namespace tapeback
