#include "tools/PacketPrinter.h"
#include "format/Failure.h"
#include "tools/Report.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using namespace llvm;

namespace tapeback {
namespace {

/// Which fields a kind has, and what they are called in JSON. Follows the comments at PacketKind.
struct KindShape {
  enum Uses : unsigned {
    Space = 1 << 0,
    Width = 1 << 1,
    Condition = 1 << 2, ///< mask and expected.
    Deadline = 1 << 3,
    Length = 1 << 4,
    Link = 1 << 5,
    Count = 1 << 6,
    Payload = 1 << 7,
    Name = 1 << 8, ///< The payload is a name.
  };
  const char *address; ///< Null: not used.
  const char *value;
  unsigned uses;
};
using S = KindShape;

constexpr KindShape shapes[] = {
    /* register-read */ {"address", "value", S::Space | S::Width},
    /* register-write */ {"address", "value", S::Space | S::Width},
    /* poll */ {"address", "value", S::Space | S::Width | S::Condition | S::Deadline | S::Count},
    /* memory-write */ {"address", nullptr, S::Space | S::Length | S::Payload},
    /* memory-read */ {"address", nullptr, S::Space | S::Length | S::Payload},
    /* memory-wait */ {"address", "value", S::Space | S::Width | S::Condition | S::Deadline},
    /* acquire */ {"address", nullptr, S::Space | S::Length | S::Payload},
    /* submit */ {"address", "queue", S::Space | S::Length | S::Payload},
    /* dma-descriptor */ {"address", "device_address", S::Space | S::Length | S::Link | S::Payload},
    /* dma-completion */ {"address", "device_address", S::Space | S::Length | S::Link | S::Payload},
    /* interrupt */ {"vector", nullptr, S::Deadline | S::Count},
    /* counter-snapshot */ {"counter", "value", 0},
    /* marker */ {nullptr, nullptr, S::Name},
    /* span-begin */ {nullptr, nullptr, S::Name},
    /* span-end */ {nullptr, nullptr, S::Link},
    /* clock-sample */ {nullptr, "value", 0},
    /* oracle */ {"address", "actual", S::Name | S::Condition | S::Length | S::Link | S::Count},
    /* reset */ {nullptr, "reset", 0},
    /* tick */ {nullptr, nullptr, 0},
    /* loss */ {"cause", "lost", 0},
    /* memory-map */ {"address", nullptr, S::Space | S::Length},
    /* memory-unmap */ {"address", nullptr, S::Space | S::Length},
    /* open */ {nullptr, nullptr, S::Name},
    /* close */ {nullptr, nullptr, 0},
    /* late-completion */ {nullptr, "value", S::Link},
};
static_assert(std::size(shapes) == packetKindCount);
constexpr KindShape unknownShape = {"address", "value",
                                    S::Space | S::Width | S::Condition | S::Deadline | S::Length | S::Link |
                                        S::Count | S::Payload};

const KindShape &shapeOf(PacketKind kind) {
  return unsigned(kind) < packetKindCount ? shapes[unsigned(kind)] : unknownShape;
}

std::string kindText(PacketKind kind) {
  const char *name = packetKindName(kind);
  return name ? name : "unknown-" + std::to_string(unsigned(kind));
}

const char *completionText(Completion completion) {
  switch (completion) {
  case Completion::Done: return "done";
  case Completion::Pending: return "pending";
  case Completion::Failed: return "failed";
  case Completion::TimedOut: return "timed-out";
  }
  return "unknown";
}

const char *originText(Origin origin) {
  switch (origin) {
  case Origin::Program: return "program";
  case Origin::Recorder: return "recorder";
  case Origin::Imported: return "imported";
  }
  return "unknown";
}

const char *resetText(uint64_t kind) {
  constexpr const char *names[] = {"default", "function", "bus", "power"};
  return kind < std::size(names) ? names[kind] : "unknown";
}

struct FlagName {
  uint8_t bit;
  const char *name;
};
constexpr FlagName flagNames[] = {
    {TransferToDevice, "to-device"},
    {TransferFromDevice, "from-device"},
    {Failed, "failed"},
    {Concurrent, "concurrent"},
    {Truncated, "truncated"},
    {NotCaptured, "not-captured"},
    {Prefix, "prefix"},
};

/// "1.5 ms", for deadlines.
std::string duration(uint64_t ns) {
  std::string result;
  raw_string_ostream os(result);
  if (ns < 1000)
    os << ns << " ns";
  else if (ns < 1000000)
    os << format("%.3g us", double(ns) / 1e3);
  else if (ns < 1000000000)
    os << format("%.3g ms", double(ns) / 1e6);
  else
    os << format("%.4g s", double(ns) / 1e9);
  return result;
}

/// The bits of `reg` that an access saw: those of `packet.width` bytes from its address on, shifted to their
/// place.
struct SeenBits {
  uint64_t value, mask;
};
SeenBits seenBits(const Packet &packet, const RegisterDescription &reg) {
  uint64_t before = packet.address - reg.offset;
  uint64_t mask = packet.width >= 8 ? ~uint64_t(0) : (uint64_t(1) << (8 * packet.width)) - 1;
  if (before >= 8)
    return {0, 0};
  return {packet.value << (8 * before), mask << (8 * before)};
}

void hexLines(raw_ostream &os, ArrayRef<uint8_t> bytes, uint64_t address) {
  for (size_t line = 0; line < bytes.size(); line += 16) {
    os << format("        %012llx ", static_cast<unsigned long long>(address + line));
    ArrayRef<uint8_t> row = bytes.slice(line, std::min<size_t>(16, bytes.size() - line));
    for (size_t i = 0; i < 16; ++i) {
      if (i < row.size())
        os << format(" %02x", row[i]);
      else
        os << "   ";
    }
    os << "  ";
    for (uint8_t byte : row)
      os << (byte >= 0x20 && byte < 0x7f ? char(byte) : '.');
    os << "\n";
  }
}

} // namespace

std::string quoteUntrusted(StringRef text) {
  std::string fixed = json::isUTF8(text) ? text.str() : json::fixUTF8(text);
  std::string result = "\"";
  auto escape = [&](unsigned char byte) {
    result += "\\x";
    result += hexdigit(byte >> 4, /*LowerCase=*/true);
    result += hexdigit(byte & 15, /*LowerCase=*/true);
  };
  for (size_t i = 0; i < fixed.size(); ++i) {
    auto byte = static_cast<unsigned char>(fixed[i]);
    auto next = static_cast<unsigned char>(i + 1 < fixed.size() ? fixed[i + 1] : 0);
    if (byte == '"' || byte == '\\')
      (result += '\\') += fixed[i];
    else if (byte < 0x20 || byte == 0x7f)
      escape(byte);
    else if (byte == 0xc2 && next < 0xa0) // U+0080 to U+009F: terminals obey these, too.
      escape(static_cast<unsigned char>(fixed[++i]));
    else
      result += fixed[i];
  }
  return result += '"';
}

const Description *PacketPrinter::description(uint16_t device) {
  if (device >= descriptions.size())
    return nullptr;
  Slot &slot = descriptions[device];
  if (!slot.tried) {
    slot.tried = true;
    const DeviceRecord &record = reader.devices()[device];
    if (!record.description.empty()) {
      Expected<Description> parsed = parseDescription(
          record.description, record.descriptionName.empty() ? "description" : record.descriptionName);
      if (parsed)
        slot.description = std::make_unique<Description>(std::move(*parsed));
      else
        warnings.push_back(
            "device " + std::to_string(device) +
            ": its description on the tape cannot be used: " + toFailure(parsed.takeError()).message);
    }
  }
  return slot.description.get();
}

const RegisterDescription *PacketPrinter::registerOf(const Packet &packet) {
  if (packet.kind != PacketKind::RegisterRead && packet.kind != PacketKind::RegisterWrite &&
      packet.kind != PacketKind::Poll)
    return nullptr;
  const Description *known = description(packet.device);
  return known && packet.space < reader.spaces().size()
             ? known->find(reader.spaces()[packet.space], packet.address, packet.width)
             : nullptr;
}

std::string PacketPrinter::spaceName(uint16_t space) const {
  return space < reader.spaces().size() ? reader.spaces()[space] : "space-" + std::to_string(space);
}

uint64_t PacketPrinter::nanoseconds(const Packet &packet, uint64_t ticks) const {
  if (packet.clock >= reader.clocks().size())
    return ticks;
  uint64_t rate = reader.clocks()[packet.clock].ticksPerSecond;
  if (rate == 0 || rate == 1000000000)
    return ticks;
  return uint64_t(static_cast<unsigned __int128>(ticks) * 1000000000 / rate);
}

Expected<std::string> PacketPrinter::name(const PacketExtra &extra) {
  if (!extra.payload)
    return std::string();
  Expected<ArrayRef<uint8_t>> content = reader.blob(extra.payload);
  if (!content)
    return content.takeError();
  // Names are at most 255 bytes; a hostile tape's may be anything.
  return std::string(content->begin(), content->begin() + std::min<size_t>(content->size(), 1024));
}

//===-- Text
//---------------------------------------------------------------------------------------------------===//

std::string PacketPrinter::place(const Packet &packet) {
  std::string where = spaceName(packet.space) + "+" + hex(packet.address);
  const RegisterDescription *reg = registerOf(packet);
  if (!reg)
    return where;
  std::string part = reg->name;
  if (packet.address != reg->offset || packet.width != reg->width)
    part += "[" + std::to_string(packet.address - reg->offset) + ":" + std::to_string(packet.width) + "]";
  return part + " (" + where + ")";
}

std::string PacketPrinter::fields(const Packet &packet) {
  std::string result;
  const RegisterDescription *reg = registerOf(packet);
  if (!reg)
    return result;
  SeenBits seen = seenBits(packet, *reg);
  for (const FieldDescription &field : reg->fields)
    if ((field.mask() & seen.mask) == field.mask()) {
      result += " ";
      result += field.name;
      result += "=" + hex((seen.value & field.mask()) >> field.low);
    }
  return result;
}

std::string PacketPrinter::details(const Packet &packet, const PacketExtra &extra) {
  auto condition = [&] {
    return " until & " + hex(extra.mask) + " == " + hex(extra.expected) + " within " +
           duration(extra.deadline);
  };
  auto ofPacket = [&] {
    return extra.link == noLink ? std::string("of no packet") : "of p" + std::to_string(extra.link);
  };
  auto range = [&] { return hex(packet.address) + ", " + std::to_string(extra.length) + " bytes"; };
  const Description *known = description(packet.device);
  switch (packet.kind) {
  case PacketKind::RegisterRead:
    return place(packet) +
           (packet.completion == Completion::Pending ? "" : " -> " + hex(packet.value) + fields(packet));
  case PacketKind::RegisterWrite: return place(packet) + " <- " + hex(packet.value) + fields(packet);
  case PacketKind::Poll:
    return place(packet) + condition() + ": " + hex(packet.value) + fields(packet) + " after " +
           std::to_string(extra.count) + " reads";
  case PacketKind::MemoryWait: return hex(packet.address) + condition() + ": " + hex(packet.value);
  case PacketKind::Submit: return "queue " + std::to_string(packet.value) + ": " + range();
  case PacketKind::MemoryWrite:
  case PacketKind::MemoryRead:
  case PacketKind::Acquire:
  case PacketKind::MemoryMap:
  case PacketKind::MemoryUnmap: return range();
  case PacketKind::DmaDescriptor: {
    bool from = packet.flags & TransferFromDevice;
    std::string text =
        (from ? "from device " : "to device ") + hex(packet.value) + (from ? " to " : " from ") + range();
    if (known && extra.link < known->activities.size())
      text += " (" + known->activities[extra.link].name + ")";
    return text;
  }
  case PacketKind::DmaCompletion: return ofPacket() + ": " + range();
  case PacketKind::Interrupt: {
    std::string text = "vector " + std::to_string(packet.address);
    if (known)
      for (const InterruptDescription &interrupt : known->interrupts)
        if (interrupt.vector == packet.address)
          text += " (" + interrupt.name + ")";
    text += " within " + duration(extra.deadline);
    if (packet.completion == Completion::Done)
      text += ": came, " + std::to_string(extra.count) + " pending";
    return text;
  }
  case PacketKind::CounterSnapshot:
    return (known && packet.address < known->counters.size() ? known->counters[packet.address].name
                                                             : "counter " + std::to_string(packet.address)) +
           " = " + std::to_string(packet.value);
  case PacketKind::SpanEnd: return ofPacket();
  case PacketKind::LateCompletion: return ofPacket() + ": " + hex(packet.value);
  case PacketKind::ClockSample:
    return (packet.clock < reader.clocks().size() ? quoteUntrusted(reader.clocks()[packet.clock].name)
                                                  : "clock " + std::to_string(packet.clock)) +
           " = " + std::to_string(packet.value);
  case PacketKind::Oracle: {
    std::string text = packet.flags & Failed ? "FAILED" : "holds";
    if (extra.length)
      return text + ": " + range() +
             (packet.flags & Failed ? ", first wrong byte at " + std::to_string(extra.count) + " is " +
                                          hex(packet.value) + " instead of " + hex(extra.expected)
                                    : "");
    if (extra.mask || extra.expected || packet.value)
      text += ": " + hex(packet.value) + ", expected " + hex(extra.expected);
    return text;
  }
  case PacketKind::Reset: return resetText(packet.value);
  case PacketKind::Loss:
    return (packet.value == unknownCount ? "an unknown number of" : std::to_string(packet.value)) +
           " packets lost: " + lossCauseName(static_cast<LossCause>(packet.address));
  case PacketKind::Marker:
  case PacketKind::SpanBegin:
  case PacketKind::Open:
  case PacketKind::Close:
  case PacketKind::Tick: return "";
  }
  return "space " + std::to_string(packet.space) + " address " + hex(packet.address) + " width " +
         std::to_string(packet.width) + " value " + hex(packet.value) + " mask " + hex(extra.mask) +
         " expected " + hex(extra.expected) + " deadline " + std::to_string(extra.deadline) + " length " +
         std::to_string(extra.length) + " link " + hex(extra.link) + " count " + std::to_string(extra.count);
}

Error PacketPrinter::writeText(raw_ostream &os, uint64_t ordinal, uint64_t window, const Packet &packet,
                               const PacketExtra &extra) {
  const KindShape &shape = shapeOf(packet.kind);
  uint64_t start = reader.summary().firstTime;
  bool negative = packet.clock == 0 && packet.issueTime < start;
  uint64_t since = packet.clock == 0 ? (negative ? start - packet.issueTime : packet.issueTime - start)
                                     : nanoseconds(packet, packet.issueTime);
  os << format("p%-8llu w%-6llu %s%llu.%09llus", static_cast<unsigned long long>(ordinal),
               static_cast<unsigned long long>(window),
               packet.clock ? ""
               : negative   ? "-"
                            : "+",
               static_cast<unsigned long long>(since / 1000000000),
               static_cast<unsigned long long>(since % 1000000000));
  if (reader.devices().size() > 1)
    os << " d" << packet.device;
  os << " t" << packet.thread << " " << left_justify(kindText(packet.kind), 14);
  if (shape.uses & KindShape::Name) {
    Expected<std::string> text = name(extra);
    if (!text)
      return text.takeError();
    os << " " << quoteUntrusted(*text);
  }
  std::string text = details(packet, extra);
  if (!text.empty())
    os << " " << text;
  if (packet.completion != Completion::Done)
    os << " [" << completionText(packet.completion) << "]";
  if (packet.origin != Origin::Program)
    os << " [" << originText(packet.origin) << "]";
  for (const FlagName &flag : flagNames)
    if ((packet.flags & flag.bit) && !(flag.bit & (TransferToDevice | TransferFromDevice | Failed)))
      os << " [" << flag.name << "]";
  if (!(shape.uses & KindShape::Payload) || !extra.payload || payload == Payload::None) {
    os << "\n";
    return Error::success();
  }
  Expected<ArrayRef<uint8_t>> content = reader.blob(extra.payload);
  if (!content)
    return content.takeError();
  if (payload == Payload::Whole) {
    os << "\n";
    hexLines(os, *content, packet.address);
    return Error::success();
  }
  ArrayRef<uint8_t> start16 = content->take_front(previewBytes);
  os << " |" << toHex(start16, /*LowerCase=*/true) << (content->size() > previewBytes ? "..." : "") << "\n";
  return Error::success();
}

//===-- JSON
//---------------------------------------------------------------------------------------------------===//

Expected<PacketPrinter::Fetched> PacketPrinter::fetch(const Packet &packet, const PacketExtra &extra) {
  const KindShape &shape = shapeOf(packet.kind);
  Fetched fetched;
  if (shape.uses & KindShape::Name) {
    Expected<std::string> text = name(extra);
    if (!text)
      return text.takeError();
    fetched.name = std::move(*text);
  } else if ((shape.uses & KindShape::Payload) && extra.payload && payload != Payload::None) {
    Expected<ArrayRef<uint8_t>> content = reader.blob(extra.payload);
    if (!content)
      return content.takeError();
    fetched.content = *content;
  }
  return fetched;
}

Error PacketPrinter::writeJson(json::OStream &os, uint64_t ordinal, uint64_t window, const Packet &packet,
                               const PacketExtra &extra) {
  Expected<Fetched> fetched = fetch(packet, extra);
  if (!fetched)
    return fetched.takeError();
  writeObject(os, ordinal, window, packet, extra, *fetched);
  return Error::success();
}

Error PacketPrinter::writeJsonLine(raw_ostream &os, uint64_t ordinal, uint64_t window, const Packet &packet,
                                   const PacketExtra &extra) {
  Expected<Fetched> fetched = fetch(packet, extra);
  if (!fetched)
    return fetched.takeError();
  json::OStream object(os);
  writeObject(object, ordinal, window, packet, extra, *fetched);
  object.flush();
  os << "\n";
  return Error::success();
}

void PacketPrinter::writeObject(json::OStream &os, uint64_t ordinal, uint64_t window, const Packet &packet,
                                const PacketExtra &extra, const Fetched &fetched) {
  const KindShape &shape = shapeOf(packet.kind);
  const ArrayRef<uint8_t> content = fetched.content;
  const Description *known = description(packet.device);
  const RegisterDescription *reg = registerOf(packet);
  os.object([&] {
    os.attribute("packet", ordinal);
    os.attribute("window", window);
    os.attribute("kind", kindText(packet.kind));
    os.attribute("device", int64_t(packet.device));
    os.attribute("thread", int64_t(packet.thread));
    os.attribute("issue", nanoseconds(packet, packet.issueTime));
    os.attribute("complete", packet.completion == Completion::Pending
                                 ? json::Value(nullptr)
                                 : json::Value(nanoseconds(packet, packet.completeTime)));
    if (packet.clock)
      os.attribute("clock", packet.clock < reader.clocks().size()
                                ? json::Value(json::fixUTF8(reader.clocks()[packet.clock].name))
                                : json::Value(int64_t(packet.clock)));
    os.attribute("origin", originText(packet.origin));
    os.attribute("completion", completionText(packet.completion));
    os.attributeArray("flags", [&] {
      for (const FlagName &flag : flagNames)
        if (packet.flags & flag.bit)
          os.value(flag.name);
    });
    if (shape.uses & KindShape::Name)
      os.attribute("name", json::fixUTF8(fetched.name));
    if (shape.uses & KindShape::Space)
      os.attribute("space", json::fixUTF8(spaceName(packet.space)));
    if (packet.kind == PacketKind::Interrupt)
      os.attribute("vector", packet.address);
    else if (packet.kind == PacketKind::Loss)
      os.attribute("cause", lossCauseName(static_cast<LossCause>(packet.address)));
    else if (packet.kind == PacketKind::CounterSnapshot)
      os.attribute("counter", known && packet.address < known->counters.size()
                                  ? json::Value(known->counters[packet.address].name)
                                  : json::Value(packet.address));
    else if (shape.address)
      os.attribute(shape.address, hex(packet.address));
    if (shape.uses & KindShape::Width)
      os.attribute("width", int64_t(packet.width));
    if (packet.kind == PacketKind::Loss)
      os.attribute("lost", packet.value == unknownCount ? json::Value(nullptr) : json::Value(packet.value));
    else if (packet.kind == PacketKind::Reset)
      os.attribute("reset", resetText(packet.value));
    else if (packet.kind == PacketKind::Submit)
      os.attribute("queue", packet.value);
    else if (shape.value)
      os.attribute(shape.value, hex(packet.value));
    if (reg) {
      os.attribute("register", reg->name);
      SeenBits seen = seenBits(packet, *reg);
      os.attributeObject("fields", [&] {
        for (const FieldDescription &field : reg->fields)
          if ((field.mask() & seen.mask) == field.mask())
            os.attribute(field.name, hex((seen.value & field.mask()) >> field.low));
      });
    }
    if (shape.uses & KindShape::Condition) {
      os.attribute("mask", hex(extra.mask));
      os.attribute("expected", hex(extra.expected));
    }
    if (shape.uses & KindShape::Deadline)
      os.attribute("deadline", extra.deadline);
    if (shape.uses & KindShape::Length)
      os.attribute("length", extra.length);
    if (packet.kind == PacketKind::DmaDescriptor)
      os.attribute("activity", known && extra.link < known->activities.size()
                                   ? json::Value(known->activities[extra.link].name)
                                   : json::Value(nullptr));
    else if (shape.uses & KindShape::Link)
      os.attribute("link", extra.link == noLink ? json::Value(nullptr) : json::Value(extra.link));
    if (shape.uses & KindShape::Count)
      os.attribute("count", extra.count);
    if ((shape.uses & KindShape::Payload) && extra.payload) {
      os.attribute("payload_id",
                   utohexstr(extra.payload.hi, true, 16) + utohexstr(extra.payload.lo, true, 16));
      if (payload != Payload::None) {
        size_t limit = payload == Payload::Preview ? previewBytes : maxJsonPayload;
        os.attribute("payload", toHex(content.take_front(limit), /*LowerCase=*/true));
        os.attribute("payload_truncated", content.size() > limit);
      }
    }
  });
}

} // namespace tapeback
