// What writers of all capture formats share: going through the tape, names, times, losses that an importer
// makes by itself.
#pragma once

#include "tools/export/Captures.h"

namespace tapeback {

/// One pass over one tape. An heir writes a line (or more) for each packet, or says that it left it out.
class CaptureWriter {
public:
  CaptureWriter(TapeSource &source, llvm::raw_ostream &os) : source(source), os(os) {}
  llvm::Expected<CaptureReport> run();

protected:
  virtual ~CaptureWriter() = default;
  virtual llvm::Error begin() { return llvm::Error::success(); }
  virtual llvm::Error write(const Packet &packet, const PacketExtra &extra) = 0;
  /// A line that says that a trigger fired at `packet`, which is written next.
  virtual void triggerPoint(const Packet &packet, llvm::StringRef text) = 0;
  virtual llvm::Error end() { return llvm::Error::success(); }

  void written() { ++report.events; }
  void leaveOut(const Packet &packet);
  void leaveOut(const char *what) { ++report.leftOut[what]; }
  void change(const char *what) { ++report.changed[what]; }
  /// A payload as one line of text: what would break a line is a blank there.
  llvm::Expected<std::string> line(BlobId id);
  llvm::StringRef alias(uint16_t device) const;
  std::string identity(uint16_t device, llvm::StringRef key) const;
  /// The space's name, whole.
  std::string space(const Packet &packet) const { return source.spaceName(packet.space); }
  /// 0 to 5 of "bar0" to "bar5", 6 of "rom"; nothing for other spaces.
  std::optional<unsigned> bar(const Packet &packet) const;
  llvm::StringRef clockName(const Packet &packet) const;

  /// What imported the tape; empty: it was recorded.
  std::string importedFrom() const;

  TapeSource &source;
  llvm::raw_ostream &os;
  uint64_t ordinal = 0; ///< Of the packet that is being written.

private:
  CaptureReport report;
};

/// "SEC.FRACTION": 6 digits, or 9 if they are needed.
std::string secondsText(uint64_t nanoseconds);
/// "0x…".
std::string hexNumber(uint64_t value);

llvm::Expected<CaptureReport> writeQtest(TapeSource &source, llvm::raw_ostream &os);
/// The tape is of one device that qemu: drives, and of nothing else.
bool isForQemuScript(const TapeSource &source);
/// The same form, with the set-up of the machine in front. Usage failure "no-qemu-device" if it is not.
llvm::Expected<CaptureReport> writeQemuScript(TapeSource &source, llvm::raw_ostream &os);
llvm::Expected<CaptureReport> writeMmiotrace(TapeSource &source, llvm::raw_ostream &os);
llvm::Expected<CaptureReport> writeVfioTrace(TapeSource &source, llvm::raw_ostream &os);

} // namespace tapeback
