#include "replayer/RangeTrace.h"

namespace tapeback {

llvm::Error RangeTrace::before(uint64_t next) {
  if (state == State::On && next >= range.endPacket)
    return finish();
  if (state == State::Before && next >= range.firstPacket && next < range.endPacket) {
    if (llvm::Error error = target->beginTrace(range.file))
      return error;
    state = State::On;
  }
  return llvm::Error::success();
}

uint64_t RangeTrace::edgeBehind(uint64_t next, uint64_t end) const {
  if (next < range.firstPacket)
    return range.firstPacket < end ? range.firstPacket : end;
  if (next < range.endPacket)
    return range.endPacket < end ? range.endPacket : end;
  return end;
}

llvm::Error RangeTrace::finish() {
  if (state != State::On)
    return llvm::Error::success();
  state = State::Written;
  return target->endTrace();
}

} // namespace tapeback
