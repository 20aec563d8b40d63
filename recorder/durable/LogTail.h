// What a durable log knows of a tape that lost its end: accesses that were issued and are not on the tape.
#pragma once

#include "format/RecoverTail.h"
#include "recorder/durable/DurableFile.h"
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

namespace tapeback {

/// One thread. Counts what a recovered tape has of the logged accesses, by thread, and appends the others:
/// those that came back as the log says, those that did not as pending. One whose answer is lost but whose
/// thread went on came back with an answer that nobody knows: it is counted, and no packet is made of it.
/// Memory: the log's (its size is fixed), and as many packets again.
class LogTail {
public:
  explicit LogTail(DurableLog log) : log(std::move(log)) {}

  /// False: the log belongs to another recording, and is of no use.
  bool belongsTo(const Manifest &manifest) const;
  void tookDevice(const DeviceRecord &device);
  void tookSpace(llvm::StringRef name) { spaces.push_back(name.str()); }
  void took(const Packet &packet);
  llvm::Expected<RecoverTail::Result> appendPending(TapeWriter &writer);

private:
  struct Seen {
    uint64_t time, address;
    uint16_t thread;
    PacketKind kind;
  };
  bool isOnTape(const durable::Entry &entry) const;
  bool wentOn(const durable::Entry &entry) const;
  std::string nameOf(const durable::Entry &entry) const;
  llvm::Expected<std::optional<uint16_t>> spaceOf(const durable::Entry &entry, TapeWriter &writer);

  DurableLog log;
  std::vector<DeviceRecord> devices;
  std::vector<std::optional<uint32_t>> logDevices; ///< By the tape's number: the log's.
  std::vector<std::string> spaces{"memory"};
  std::unordered_map<uint16_t, uint64_t> counts; ///< Logged accesses on the tape, by thread.
  std::vector<Seen> seen;                        ///< The latest of them, used in a circle.
  size_t nextSeen = 0;
  bool complete = true; ///< The tape has all from the beginning, so that they can be counted.
};

} // namespace tapeback
