// What the ring of a killed recording has that its tape has not.
#pragma once

#include "format/RecoverTail.h"
#include "recorder/durable/ContinuedTape.h"
#include "recorder/durable/RingNote.h"
#include "recorder/ring/RingFile.h"

namespace tapeback {

/// One thread. The ring is only read, and everything in it is untrusted, as while it is recorded.
class RingTail {
public:
  /// `log`, if not null, is told of everything that comes from the ring, and must outlive this.
  static llvm::Expected<std::unique_ptr<RingTail>> open(const std::string &ringPath, LogTail *log);

  ContinuedTape &tape() { return continued; }
  llvm::Expected<RecoverTail::Result> append(TapeWriter &writer);

private:
  explicit RingTail(LogTail *log) : continued(log) {}
  llvm::Expected<std::vector<CollectorDevice>> devicesOfNote() const;

  ContinuedTape continued;
  std::unique_ptr<ring::RingFile> file;
  RingNote note;
};

} // namespace tapeback
