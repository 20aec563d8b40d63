// Which packets a listing shows: kind, register, command, device, thread.
#pragma once

#include "format/TapeReader.h"
#include "tools/PacketPrinter.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <bitset>
#include <optional>
#include <string>
#include <vector>

namespace tapeback {

/// As on the command line. Empty lists and absent values let everything through.
struct FilterOptions {
  std::vector<std::string> kinds;     ///< Names, or "unknown" for kinds of a later version.
  std::vector<std::string> registers; ///< Names, or "space+offset".
  std::vector<std::string> commands;  ///< Names of what is submitted, or "unknown".
  std::optional<std::string> device;  ///< Number or alias.
  std::optional<uint64_t> thread;
};

/// Class Usage if a name means nothing on this tape; the hint says what there is.
class PacketFilter {
public:
  static llvm::Expected<PacketFilter> make(const FilterOptions &options, TapeReader &reader,
                                           PacketPrinter &printer);

  /// Fails if a command has to be read and its block is damaged.
  llvm::Expected<bool> passes(const Packet &packet, const PacketExtra &extra, PacketPrinter &printer) const;

private:
  /// The bytes of a register of one device.
  struct RegisterBytes {
    std::optional<uint16_t> device; ///< Absent: of any.
    uint16_t space;
    uint64_t first, size;
  };

  llvm::Error addKind(llvm::StringRef name);
  llvm::Error addRegister(llvm::StringRef name, TapeReader &reader, PacketPrinter &printer);
  llvm::Error addCommand(const std::string &name, TapeReader &reader, PacketPrinter &printer);
  llvm::Error setDevice(llvm::StringRef name, TapeReader &reader);

  std::bitset<256> kinds; ///< None: all.
  bool anyRegister = true;
  std::vector<RegisterBytes> registers;
  std::vector<std::string> commands;
  std::optional<uint16_t> device, thread;
};

} // namespace tapeback
