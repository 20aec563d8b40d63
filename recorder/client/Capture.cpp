#include "recorder/client/Capture.h"
#include "recorder/client/Device.h"
#include <cstdlib>
#include <cstring>

namespace tapeback::client {

/// What a range or a record costs, beside its bytes.
static constexpr uint64_t rangeCost = 256;

bool Capture::grow(uint64_t bytes) {
  if (bytes <= capacity)
    return true;
  uint64_t wanted = bytes < 65536 ? 65536 : bytes;
  auto *grown = static_cast<uint8_t *>(malloc(wanted));
  if (!grown)
    return false;
  free(buffer);
  buffer = grown;
  capacity = wanted;
  return true;
}

/// A buffer as large as one large transfer is not kept.
void Capture::shrink() {
  if (capacity <= 8 << 20)
    return;
  free(buffer);
  buffer = nullptr;
  capacity = 0;
}

void Capture::clear() {
  shadow.clear();
  free(buffer);
  buffer = nullptr;
  capacity = 0;
}

static bool copyRange(tb_device &owner, uint64_t address, uint8_t *out, uint64_t bytes) {
  tapeback_backend_failure failure;
  return findRegion(&owner, address, bytes) &&
         copyFromMemory(&owner, address, out, bytes, &failure) == TAPEBACK_BACKEND_OK;
}

const uint8_t *Capture::look(tb_device &owner, uint64_t address, uint64_t bytes) {
  return grow(bytes) && copyRange(owner, address, buffer, bytes) ? buffer : nullptr;
}

const uint8_t *Capture::gather(tb_device &owner, const Rows &rows, uint64_t &bytes) {
  uint64_t limit = session().producer.captureLimit();
  bytes = rows.total() < limit ? rows.total() : limit;
  if (!grow(bytes ? bytes : 1))
    return nullptr;
  for (uint64_t r = 0, at = 0; at < bytes; ++r) {
    uint64_t part = rows.bytes < bytes - at ? rows.bytes : bytes - at;
    if (!copyRange(owner, rows.address + r * rows.stride, buffer + at, part))
      return nullptr;
    at += part;
  }
  return buffer;
}

bool Capture::knows(const Rows &rows, const uint8_t *content, uint64_t bytes) const {
  if (bytes < rows.total())
    return false; // More than is captured at a time: nobody can say.
  for (uint64_t r = 0; r < rows.count; ++r)
    if (!shadow.knows(rows.address + r * rows.stride, content + r * rows.bytes, rows.bytes))
      return false;
  return true;
}

void Capture::learn(const Rows &rows, const uint8_t *content, uint64_t bytes) {
  if (bytes < rows.total())
    shadow.forget(rows);
  for (uint64_t r = 0, at = 0; at < bytes; ++r) {
    uint64_t part = rows.bytes < bytes - at ? rows.bytes : bytes - at;
    shadow.learn(rows.address + r * rows.stride, content + at, part);
    at += part;
  }
}

static ring::Record rowsRecord(const tb_device &owner, PacketKind kind, const Rows &rows) {
  ring::Record record = blankRecord(&owner, kind);
  record.address = rows.address;
  record.length = rows.total();
  if (rows.count > 1) {
    record.count = rows.count;
    record.expected = rows.stride;
  }
  return record;
}

/// What is mapped and the host's own, piece by piece. True if a piece was recorded.
bool Capture::publishPieces(tb_device &owner, const Rows &rows, Budget &budget) {
  bool stored = false;
  uint64_t limit = session().producer.captureLimit();
  for (uint64_t r = 0; r < rows.count; ++r) {
    uint64_t at = rows.address + r * rows.stride, end = at + rows.bytes, from = 0, to = 0;
    while (at < end && budget.spend(rangeCost) && shadow.nextFree(at, end, from, to)) {
      at = to;
      uint64_t bytes = to - from < limit ? to - from : limit;
      budget.spend(to - from);
      const uint8_t *content = look(owner, from, bytes);
      if (content && bytes == to - from && shadow.knows(from, content, bytes))
        continue;
      Rows piece = {from, to - from, 1, 0};
      // eventWithMemory would look again; what is recorded is what was looked at.
      ring::Record record = rowsRecord(owner, PacketKind::MemoryWrite, piece);
      event(record, content, content ? bytes : 0);
      learn(piece, content, content ? bytes : 0);
      stored = true;
    }
  }
  return stored;
}

void Capture::publish(tb_device &owner, const Rows &rows, Budget &budget) {
  publishPieces(owner, rows.pieces(), budget);
}

static ring::Record descriptorRecord(const tb_device &owner, PacketKind kind, const Transfer &transfer) {
  ring::Record record = blankRecord(&owner, kind);
  record.address = transfer.rows.address;
  record.length = transfer.length;
  record.count = transfer.count;
  record.expected = transfer.hostStride;
  record.flags = transfer.toDevice ? TransferToDevice : TransferFromDevice;
  return record;
}

static ring::Record startRecord(const tb_device &owner, const Transfer &transfer) {
  ring::Record record = descriptorRecord(owner, PacketKind::DmaDescriptor, transfer);
  record.value = transfer.deviceAddress;
  record.mask = transfer.deviceStride;
  record.link = noLink;
  return record;
}

bool Capture::start(tb_device &owner, Transfer &transfer, Budget &budget) {
  const Rows &rows = transfer.rows;
  const Rows pieces = rows.pieces();
  bool mapped = shadow.covers(rows), owned = shadow.owned(rows), stored = false;
  // What is not mapped costs its rows, however long they claim to be.
  uint64_t limit = session().producer.captureLimit();
  budget.spend(rangeCost * (1 + pieces.count / 16));
  if (mapped)
    budget.spend(pieces.total() + (rows.total() < limit ? rows.total() : limit));
  ring::Record descriptor = startRecord(owner, transfer);
  uint64_t bytes = 0;
  const uint8_t *content = mapped && !owned ? gather(owner, pieces, bytes) : nullptr;
  if (content) {
    stored = !knows(pieces, content, bytes);
    if (stored) {
      event(rowsRecord(owner, PacketKind::MemoryWrite, pieces), content, bytes);
      learn(pieces, content, bytes);
    }
    // Rows that overlap are one piece of memory, but more bytes to the device.
    bool same = pieces.total() == rows.total();
    if (transfer.toDevice && !same)
      content = gather(owner, rows, bytes);
    if (transfer.toDevice && stored && same) {
      descriptor.hints = ring::SamePayload;
      transfer.sequence = event(descriptor);
    } else {
      transfer.sequence =
          event(descriptor, transfer.toDevice ? content : nullptr, transfer.toDevice ? bytes : 0);
    }
  } else {
    stored = publishPieces(owner, pieces, budget);
    if (transfer.toDevice)
      descriptor.flags |= uint8_t(mapped && owned ? DeviceOwned : NotCaptured);
    transfer.sequence = event(descriptor);
  }
  if (!transfer.toDevice) {
    // It ends where it meets memory that is not there: what lies behind that is not its own.
    transfer.owned = rows;
    if (!mapped && !shadow.leading(rows, transfer.owned))
      transfer.owned.count = 0;
    if (transfer.owned.count)
      shadow.take(transfer.owned);
  }
  shrink();
  return stored;
}

void Capture::startBlind(tb_device &owner, Transfer &transfer, Budget &budget) {
  ring::Record descriptor = startRecord(owner, transfer);
  if (transfer.toDevice) {
    descriptor.flags |= NotCaptured;
  } else if (Rows first = {transfer.rows.address, 1, 1, 0}; !budget.over() && shadow.covers(first)) {
    // All between its ends: however many rows there are, it costs no more than the memory there is.
    budget.spend(shadow.size());
    Rows all = {transfer.rows.address, transfer.rows.last() - transfer.rows.address + 1, 1, 0};
    if (!all.bytes)
      --all.bytes;
    shadow.forget(all);
  }
  // Whoever comes after has to record everything anew.
  if (budget.justOver())
    shadow.forgetAll();
  transfer.sequence = event(descriptor);
}

bool Capture::complete(tb_device &owner, const Transfer &transfer) {
  ring::Record record = descriptorRecord(owner, PacketKind::DmaCompletion, transfer);
  record.link = transfer.sequence;
  if (transfer.toDevice) {
    event(record);
    return false;
  }
  const Rows &rows = transfer.rows;
  if (transfer.owned.count)
    shadow.release(transfer.owned);
  uint64_t bytes = 0;
  bool mapped = shadow.covers(rows), owned = shadow.owned(rows);
  const uint8_t *content = mapped && !owned ? gather(owner, rows, bytes) : nullptr;
  if (!content) {
    record.flags |= uint8_t(mapped && owned ? DeviceOwned : NotCaptured);
    event(record);
    return false;
  }
  event(record, content, bytes);
  const Rows pieces = rows.pieces();
  if (pieces.total() != rows.total())
    content = gather(owner, pieces, bytes);
  if (content)
    learn(pieces, content, bytes);
  shrink();
  return content != nullptr;
}

void Capture::recheck(tb_device &owner, const Transfer &transfer) {
  uint64_t bytes = 0;
  const Rows pieces = transfer.rows.pieces();
  const uint8_t *content = gather(owner, pieces, bytes);
  if (!content)
    return;
  ring::Record record = descriptorRecord(owner, PacketKind::DmaCompletion, transfer);
  record.link = transfer.sequence;
  record.value = 1;
  bool changed = bytes == pieces.total() && !knows(pieces, content, bytes);
  if (changed) {
    // On the tape as evidence only: a replay does not have it, so it is not known.
    record.origin = uint8_t(Origin::Recorder);
    shadow.forget(pieces);
  }
  if (pieces.total() != transfer.rows.total())
    content = gather(owner, transfer.rows, bytes);
  event(record, content, content ? bytes : 0);
  shrink();
}

void Capture::recheckSource(tb_device &owner, const Transfer &transfer) {
  uint64_t bytes = 0;
  const Rows pieces = transfer.rows.pieces();
  const uint8_t *content = shadow.covers(pieces) ? gather(owner, pieces, bytes) : nullptr;
  bool changed = false;
  for (uint64_t r = 0; content && r < pieces.count && (r + 1) * pieces.bytes <= bytes && !changed; ++r)
    changed =
        shadow.contradicts(pieces.address + r * pieces.stride, content + r * pieces.bytes, pieces.bytes);
  if (changed) {
    ring::Record record = rowsRecord(owner, PacketKind::MemoryWrite, pieces);
    record.origin = uint8_t(Origin::Recorder);
    event(record, content, bytes);
    shadow.forget(pieces); // A replay does not have it: captured anew when it is handed over again.
  }
  shrink();
}

} // namespace tapeback::client
