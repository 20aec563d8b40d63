#include "recorder/import/AxiPort.h"

using namespace llvm;

namespace tapeback {
namespace {

constexpr size_t maxOutstanding = 1024, maxEarlyBeats = 4096;

constexpr const char *wireNames[axiWireCount] = {
    "awvalid", "awready", "awaddr", "awlen",  "awsize", "awburst", "awid",    "wvalid",  "wready", "wdata",
    "wstrb",   "wlast",   "bvalid", "bready", "bresp",  "bid",     "arvalid", "arready", "araddr", "arlen",
    "arsize",  "arburst", "arid",   "rvalid", "rready", "rdata",   "rresp",   "rlast",   "rid"};

} // namespace

const char *axiWireName(AxiWire wire) {
  return wireNames[unsigned(wire)];
}

void WireValue::set(StringRef bits) {
  uint64_t number = 0;
  bool known = true;
  for (char c : bits.take_back(64)) {
    number = number << 1 | (c == '1');
    known &= (c | 1) == '1';
  }
  set(number, known);
  for (bits = bits.drop_back(std::min<size_t>(bits.size(), 64)); LLVM_UNLIKELY(!bits.empty());
       bits = bits.drop_back(std::min<size_t>(bits.size(), 64))) {
    number = 0;
    for (char c : bits.take_back(64)) {
      number = number << 1 | (c == '1');
      known &= (c | 1) == '1';
    }
    more.push_back(number);
  }
  unknown = !known;
}

bool AxiPort::usable(std::string &why) const {
  auto all = [&](std::initializer_list<AxiWire> wanted) {
    for (AxiWire wire : wanted)
      if (wires[unsigned(wire)] < 0) {
        why = std::string("has no ") + axiWireName(wire);
        return false;
      }
    return true;
  };
  return all({AxiWire::ArValid, AxiWire::ArReady, AxiWire::ArAddr, AxiWire::RValid, AxiWire::RReady,
              AxiWire::RData}) ||
         all({AxiWire::AwValid, AxiWire::AwReady, AxiWire::AwAddr, AxiWire::WValid, AxiWire::WReady,
              AxiWire::WData});
}

const WireValue *AxiPort::value(ArrayRef<WireValue> values, AxiWire wire) const {
  int index = wires[unsigned(wire)];
  return index < 0 ? nullptr : &values[size_t(index)];
}

uint64_t AxiPort::number(ArrayRef<WireValue> values, AxiWire wire, uint64_t otherwise) const {
  const WireValue *found = value(values, wire);
  return found && !found->unknown ? found->low() : otherwise;
}

bool AxiPort::handshake(ArrayRef<WireValue> values, AxiWire valid, AxiWire ready) const {
  const WireValue *v = value(values, valid), *r = value(values, ready);
  return v && r && v->isHigh() && r->isHigh();
}

AxiPort::Request AxiPort::request(ArrayRef<WireValue> values, AxiWire address, AxiWire length, AxiWire size,
                                  AxiWire burst, unsigned dataBits, uint64_t time, ImportOutput &out) const {
  Request result;
  const WireValue *at = value(values, address);
  if (!at || at->unknown)
    out.warn("unknown-address", "an address with bits that are x or z was accepted; 0 is taken");
  else
    result.address = at->low();
  result.time = time;
  result.beats = (number(values, length, 0) & 255) + 1;
  uint64_t bus = std::max<uint64_t>(dataBits / 8, 1);
  uint64_t log = number(values, size, ~uint64_t(0));
  result.size = log <= 7 ? std::min(uint64_t(1) << log, bus) : bus;
  result.burst = unsigned(number(values, burst, 1) & 3);
  return result;
}

uint64_t AxiPort::addressOf(const Request &request, uint64_t beat) {
  if (beat == 0 || request.burst == 0)
    return request.address;
  uint64_t aligned = request.address - request.address % request.size;
  uint64_t next = aligned + beat * request.size;
  uint64_t span = request.size * request.beats;
  if (request.burst != 2)
    return next;
  uint64_t base = request.address - request.address % span;
  return base + (next - base) % span;
}

bool AxiPort::begin(ImportOutput &out, StringRef space) {
  if (!started) {
    std::optional<uint16_t> id = out.device(name), tapeSpace = out.space(space);
    if (!id || !tapeSpace)
      return false;
    device = *id, spaceId = *tapeSpace;
    started = true;
  }
  return true;
}

void AxiPort::emit(bool write, const Request &request, uint64_t beat, const WireValue *data, uint64_t strobes,
                   uint64_t time, Completion completion, ImportOutput &out) {
  unsigned bus = std::max(bits[unsigned(write ? AxiWire::WData : AxiWire::RData)] / 8, 1u);
  uint64_t address = addressOf(request, beat);
  auto byteAt = [&](uint64_t lane) -> uint8_t { return data ? data->byte(lane) : 0; };
  bool content = completion == Completion::Done, missing = !content;
  if (content && write && data->unknown) {
    out.warn("unknown-data", "data with bits that are x or z was written: it is not captured");
    return out.loss(LossCause::Source, 1);
  }
  if (content && (!data || data->unknown)) {
    out.warn("unknown-data", "data with bits that are x or z was read: its value is not captured");
    // Happened, and there is nothing to compare with.
    missing = true;
    if (request.size <= 8)
      completion = Completion::Pending;
  }
  // The part of the bus that this beat uses, up to the end of its container.
  uint64_t from = address, to = address - address % request.size + request.size;
  auto piece = [&](uint64_t at, uint64_t length) {
    Packet packet;
    packet.device = device;
    packet.address = at;
    packet.issueTime = request.time;
    packet.completion = completion;
    packet.completeTime = completion == Completion::Pending ? 0 : time;
    if (request.size > 8) {
      std::vector<uint8_t> bytes;
      for (uint64_t i = 0; i < length; ++i)
        bytes.push_back(byteAt((at + i) % bus));
      packet.kind = write ? PacketKind::MemoryWrite : PacketKind::MemoryRead;
      PacketExtra extra;
      extra.length = length;
      if (!missing) {
        out.append(packet, extra, bytes);
      } else {
        packet.flags = NotCaptured;
        out.append(packet, extra);
      }
      return;
    }
    packet.kind = write ? PacketKind::RegisterWrite : PacketKind::RegisterRead;
    packet.space = spaceId;
    packet.width = uint8_t(length);
    for (uint64_t i = 0; i < length; ++i)
      packet.value |= uint64_t(byteAt((at + i) % bus)) << (8 * i);
    out.append(packet);
  };
  // Pieces that the strobes select: aligned, of 1, 2, 4 or 8 bytes where they are registers.
  for (uint64_t at = from; at < to;) {
    auto written = [&](uint64_t byte) { return !write || bus > 64 || (strobes >> (byte % bus) & 1); };
    if (!written(at)) {
      ++at;
      continue;
    }
    uint64_t length = 1;
    if (request.size > 8) {
      while (at + length < to && written(at + length))
        ++length;
    } else {
      for (uint64_t wider = 2; wider <= 8 && at % wider == 0 && at + wider <= to; wider *= 2) {
        bool all = true;
        for (uint64_t i = length; i < wider; ++i)
          all &= written(at + i);
        if (!all)
          break;
        length = wider;
      }
    }
    piece(at, length);
    at += length;
  }
}

void AxiPort::readBeat(ArrayRef<WireValue> values, uint64_t time, ImportOutput &out) {
  bool ids = wires[unsigned(AxiWire::ArId)] >= 0 && wires[unsigned(AxiWire::RId)] >= 0;
  auto queue = reads.find(ids ? number(values, AxiWire::RId, 0) : 0);
  if (queue == reads.end()) {
    out.warn("answer-without-request", "a read was answered whose address is not in the waveform");
    out.loss(LossCause::Source, 1);
    return;
  }
  Request &request = queue->second.front();
  bool failed = number(values, AxiWire::RResp, 0) >= 2;
  emit(false, request, request.beat, value(values, AxiWire::RData), 0, time,
       failed ? Completion::Failed : Completion::Done, out);
  if (++request.beat < request.beats)
    return;
  --outstandingReads;
  queue->second.pop_front();
  if (queue->second.empty())
    reads.erase(queue);
}

/// Gives data to the oldest address that still wants some.
void AxiPort::feedWrites() {
  for (Write &write : writes)
    while (!write.whole && !data.empty()) {
      write.beats.push_back(std::move(data.front()));
      data.pop_front();
      write.whole = write.beats.size() >= write.request.beats;
    }
}

void AxiPort::finishWrite(const Write &write, uint64_t time, bool failed, bool pending, ImportOutput &out) {
  for (uint64_t beat = 0; beat < write.beats.size(); ++beat)
    emit(true, write.request, beat, &write.beats[beat].data, write.beats[beat].strobes, time,
         pending  ? Completion::Pending
         : failed ? Completion::Failed
                  : Completion::Done,
         out);
}

void AxiPort::edge(ArrayRef<WireValue> values, uint64_t time, ImportOutput &out, StringRef space) {
  bool ar = handshake(values, AxiWire::ArValid, AxiWire::ArReady),
       r = handshake(values, AxiWire::RValid, AxiWire::RReady);
  bool aw = handshake(values, AxiWire::AwValid, AxiWire::AwReady),
       w = handshake(values, AxiWire::WValid, AxiWire::WReady);
  w = w && wires[unsigned(AxiWire::WData)] >= 0;
  bool b = handshake(values, AxiWire::BValid, AxiWire::BReady);
  bool answers = wires[unsigned(AxiWire::BValid)] >= 0 && wires[unsigned(AxiWire::BReady)] >= 0;
  if (!(ar || r || aw || w || b))
    return;
  out.at(time);
  if (!begin(out, space))
    return out.warn("too-many-ports", "too many devices");
  if (r)
    readBeat(values, time, out);
  if (ar) {
    bool ids = wires[unsigned(AxiWire::ArId)] >= 0 && wires[unsigned(AxiWire::RId)] >= 0;
    if (outstandingReads < maxOutstanding) {
      ++outstandingReads;
      reads[ids ? number(values, AxiWire::ArId, 0) : 0].push_back(
          request(values, AxiWire::ArAddr, AxiWire::ArLen, AxiWire::ArSize, AxiWire::ArBurst,
                  bits[unsigned(AxiWire::RData)], time, out));
    } else {
      out.warn("too-many-outstanding", "more than 1024 reads wait for an answer");
      out.loss(LossCause::Source, 1);
    }
  }
  if (aw) {
    if (writes.size() < maxOutstanding) {
      Write write;
      write.request = request(values, AxiWire::AwAddr, AxiWire::AwLen, AxiWire::AwSize, AxiWire::AwBurst,
                              bits[unsigned(AxiWire::WData)], time, out);
      write.id = number(values, AxiWire::AwId, 0);
      writes.push_back(std::move(write));
    } else {
      out.warn("too-many-outstanding", "more than 1024 writes wait for an answer");
      out.loss(LossCause::Source, 1);
    }
  }
  if (w) {
    if (data.size() < maxEarlyBeats) {
      const WireValue *strobes = value(values, AxiWire::WStrb);
      data.push_back({*value(values, AxiWire::WData),
                      strobes && !strobes->unknown ? strobes->low() : ~uint64_t(0), false});
    } else {
      out.warn("data-without-request", "write data comes whose address is not in the waveform");
      out.loss(LossCause::Source, 1);
    }
  }
  feedWrites();
  if (!answers) {
    while (!writes.empty() && writes.front().whole) {
      finishWrite(writes.front(), time, false, false, out);
      writes.pop_front();
    }
    return;
  }
  if (!b)
    return;
  bool ids = wires[unsigned(AxiWire::AwId)] >= 0 && wires[unsigned(AxiWire::BId)] >= 0;
  uint64_t id = number(values, AxiWire::BId, 0);
  auto write = writes.begin();
  while (write != writes.end() && (!write->whole || (ids && write->id != id)))
    ++write;
  if (write == writes.end()) {
    out.warn("answer-without-request", "a write was answered that is not in the waveform");
    out.loss(LossCause::Source, 1);
    return;
  }
  finishWrite(*write, time, number(values, AxiWire::BResp, 0) >= 2, false, out);
  writes.erase(write);
}

void AxiPort::end(ImportOutput &out, StringRef space) {
  if (!started || !begin(out, space))
    return;
  for (const auto &[id, queue] : reads)
    for (const Request &request : queue)
      for (uint64_t beat = request.beat; beat < request.beats; ++beat)
        emit(false, request, beat, nullptr, 0, 0, Completion::Pending, out);
  for (const Write &write : writes)
    finishWrite(write, 0, false, true, out);
}

} // namespace tapeback
