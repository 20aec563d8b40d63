#include "recorder/ring/RingConsumer.h"
#include "recorder/ring/Futex.h"
#include <algorithm>
#include <cstring>

using namespace llvm;

namespace tapeback::ring {

static constexpr unsigned lagMilliseconds = 2;

uint64_t RingConsumer::available() {
  if (position == seen || frozen)
    seen = frozen ? end : header.head.load(std::memory_order_seq_cst);
  return seen - position;
}

/// Nothing behind this point can be trusted to begin at a frame: go to where the producer is now.
RingConsumer::Status RingConsumer::damaged() {
  position = seen = frozen ? end : header.head.load(std::memory_order_acquire);
  assembled.clear();
  ++corrupt;
  release();
  return Status::Corrupt;
}

RingConsumer::Status RingConsumer::takeFrame(Record &record, ArrayRef<uint8_t> &payload) {
  for (unsigned pads = 0;; ++pads) {
    uint64_t ready = available();
    if (ready == 0)
      return Status::Empty;
    if (ready > dataBytes || ready % 8 || position % 8 || pads > 1)
      return damaged();
    uint64_t index = position & (dataBytes - 1), toEnd = dataBytes - index;
    // Copied first, checked afterwards: the program can change the original between the two.
    std::memcpy(&record, data + index, 8);
    if (record.size < 8 || record.size % 8 || record.size > ready || record.size > toEnd)
      return damaged();
    if (record.type == RecordType::Pad) {
      position += record.size;
      continue;
    }
    uint32_t size = record.size;
    if (size < sizeof(Record))
      return damaged();
    std::memcpy(&record, data + index, sizeof(Record));
    if (record.size != size || uint8_t(record.type) < uint8_t(RecordType::Chunk) ||
        uint8_t(record.type) > maxRecordType || record.payloadBytes > size - sizeof(Record) ||
        alignFrame(sizeof(Record) + record.payloadBytes) != size ||
        record.payloadTotal < record.payloadBytes || record.payloadTotal > maxPayloadBytes(captureLimit))
      return damaged();
    payload = {};
    if (record.payloadBytes) {
      frame.assign(data + index + sizeof(Record), data + index + sizeof(Record) + record.payloadBytes);
      payload = frame;
    }
    position += size;
    return Status::Record;
  }
}

RingConsumer::Status RingConsumer::next(Record &record, ArrayRef<uint8_t> &payload) {
  if (position - released >= dataBytes / 16)
    release();
  for (;;) {
    Status status = takeFrame(record, payload);
    if (status != Status::Record)
      return status;
    if (record.type != RecordType::Chunk) {
      if (record.payloadTotal == record.payloadBytes) {
        assembled.clear(); // Chunks of a producer that died before its record.
        return Status::Record;
      }
      if (assembled.size() != record.payloadTotal - record.payloadBytes)
        return damaged();
      assembled.insert(assembled.end(), payload.begin(), payload.end());
      frame.swap(assembled);
      assembled.clear();
      payload = frame;
      return Status::Record;
    }
    if (record.address == 0)
      assembled.clear();
    // A chunk without bytes would let a hostile producer keep us here.
    if (record.payloadBytes == 0 || record.address != assembled.size() ||
        assembled.size() + payload.size() > record.payloadTotal)
      return damaged();
    assembled.insert(assembled.end(), payload.begin(), payload.end());
    // A payload may be larger than the ring: make room while it comes in.
    if (position - released >= dataBytes / 16)
      release();
  }
}

void RingConsumer::release() {
  released = position;
  header.tail.store(position, std::memory_order_seq_cst);
  if (header.spaceWanted.load(std::memory_order_seq_cst) && header.spaceWanted.exchange(0))
    futexWakeAll(header.spaceWanted);
}

void RingConsumer::wait(unsigned milliseconds) {
  release();
  if (frozen)
    return;
  // While records come, being woken for each would cost the program a system call a record, and taking each
  // as it comes a line fetched from core to core: lag behind, by a moment and never by more than a part of
  // the ring. When none come any more, the next one wakes us.
  bool flowing = position != positionAtWait;
  positionAtWait = position;
  uint32_t wanted = flowing ? WantsMuch : WantsAny;
  header.dataWanted.store(wanted, std::memory_order_seq_cst);
  uint64_t ready = available();
  if ((flowing ? ready < dataBytes / 4 : ready == 0) && !woken.load(std::memory_order_seq_cst))
    futexWait(header.dataWanted, wanted, flowing ? std::min(milliseconds, lagMilliseconds) : milliseconds);
  header.dataWanted.store(0, std::memory_order_relaxed);
  woken.store(false, std::memory_order_relaxed);
}

void RingConsumer::wake() {
  woken.store(true, std::memory_order_seq_cst);
  header.dataWanted.store(0, std::memory_order_seq_cst);
  futexWakeAll(header.dataWanted);
}

void RingConsumer::freeze() {
  end = header.head.load(std::memory_order_acquire);
  frozen = true;
}

} // namespace tapeback::ring
