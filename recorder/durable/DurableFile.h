// The durable log as the recorder makes it and as `recover` reads it. The program writes it
// (client/DurableLog.h).
#pragma once

#include "hal/description/Description.h"
#include "recorder/durable/DurableFormat.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>
#include <vector>

namespace tapeback {

enum class DurableMode : uint8_t { Off, MayHang, All };
/// "off", "may-hang" or "all"; usage failure otherwise.
llvm::Expected<DurableMode> parseDurableMode(llvm::StringRef text);

/// Where the log of a recording is whose unfinished tape is PARTIAL.
std::string durableLogOf(llvm::StringRef partial);

/// What is logged of one device, in the order of the capture table.
struct DurableSource {
  std::string alias;
  const Description *description; ///< Null: none.
};

/// Owns the file: removed by the destructor, unless keep() was called. One thread.
class DurableFile {
public:
  /// Makes the file, all of it on stable storage. What a dead recorder left there goes to PATH with "stale"
  /// put in, as its tape does. `id` is 32 hexadecimal digits.
  static llvm::Expected<std::unique_ptr<DurableFile>> create(const std::string &partial, DurableMode mode,
                                                             llvm::ArrayRef<DurableSource> sources,
                                                             const std::string &id);
  ~DurableFile();
  DurableFile(const DurableFile &) = delete;
  DurableFile &operator=(const DurableFile &) = delete;

  const std::string &path() const { return filePath; }
  void keep() { kept = true; }
  /// As the program last told.
  durable::Cost cost() const;

private:
  DurableFile() = default;
  std::string filePath;
  int fd = -1;
  bool kept = false;
};

/// What a log says, checked: every entry is whole, and names a device and a space of the log.
struct DurableLog {
  struct Device {
    std::string alias;
    std::vector<std::string> spaces;
  };
  struct Register {
    uint64_t offset;
    uint32_t width, device;
    std::string space;
  };
  std::string id;
  bool everything = false;
  std::vector<Device> devices;
  std::vector<Register> registers;
  std::vector<durable::Entry> entries; ///< In the order in which they were made.
  uint64_t damaged = 0;                ///< Entries that are not whole.

  /// True if an access like this is logged.
  bool logs(uint32_t device, llvm::StringRef space, uint64_t offset, uint32_t width) const;
};
/// Fails with code no-durable-log if there is none.
llvm::Expected<DurableLog> readDurableLog(const std::string &path);

} // namespace tapeback
