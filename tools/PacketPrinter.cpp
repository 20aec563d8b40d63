#include "tools/PacketPrinter.h"
#include "format/Failure.h"
#include "tools/PacketShape.h"
#include "tools/Report.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using namespace llvm;

namespace tapeback {
namespace {

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

const LayoutDescription *PacketPrinter::layoutOf(const Packet &packet, const PacketExtra &extra) {
  if (packet.kind == PacketKind::MemoryWrite)
    return element && element->device == packet.device && element->address == packet.address &&
                   extra.length == element->layout->size
               ? element->layout
               : nullptr;
  if (packet.kind == PacketKind::CommandDone) {
    const Description *known = description(packet.device);
    return known && packet.value < known->queues.size() ? known->completionLayout() : nullptr;
  }
  const Description *known = packet.kind == PacketKind::Submit ? description(packet.device) : nullptr;
  return known && packet.value < known->queues.size() ? &known->layouts[known->queues[packet.value].layout]
                                                      : nullptr;
}

Expected<std::string> PacketPrinter::commandOf(const Packet &packet, const PacketExtra &extra) {
  if (packet.kind != PacketKind::Submit)
    return std::string();
  const LayoutDescription *layout = layoutOf(packet, extra);
  if (!layout || !extra.payload)
    return std::string("unknown");
  Expected<ArrayRef<uint8_t>> entry = reader.blob(extra.payload);
  if (!entry)
    return entry.takeError();
  const EntryForm *form = layout->formOf(*entry);
  return form ? form->name : std::string("unknown");
}

/// Descriptions stay where they are, so that the element's layout may be kept.
void PacketPrinter::follow(const Packet &packet, const LayoutDescription &layout, ArrayRef<uint8_t> entry) {
  element.reset();
  const EntryForm *form = layout.formOf(entry);
  if (!form || !form->chain)
    return;
  auto value = [&](unsigned field) { return entryValue(form->fields[field], entry); };
  if (form->chain->last && form->chain->last->holds(value(form->chain->last->field)))
    return;
  element = Element{packet.device, value(form->chain->address),
                    &description(packet.device)->layouts[form->chain->layout]};
}

std::string PacketPrinter::spaceName(uint16_t space) const {
  return space < reader.spaces().size() ? reader.spaces()[space] : "space-" + std::to_string(space);
}

uint64_t PacketPrinter::nanoseconds(const Packet &packet, uint64_t ticks) const {
  uint8_t clock = clockOfStamps(packet);
  if (clock >= reader.clocks().size())
    return ticks;
  uint64_t rate = reader.clocks()[clock].ticksPerSecond;
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

/// "q0 #12 GEMM m=8 n=8 k=64 at 0x1000".
std::string PacketPrinter::submission(const Packet &packet, const PacketExtra &extra,
                                      const Fetched &fetched) {
  std::string text = layoutOf(packet, extra) ? description(packet.device)->queues[packet.value].name
                                             : "queue " + std::to_string(packet.value);
  text += " #" + std::to_string(extra.count);
  if (fetched.layout)
    return text + " " + formatEntry(*fetched.layout, fetched.content) + " at " + hex(packet.address);
  return text + ": " + hex(packet.address) + ", " + std::to_string(extra.length) + " bytes";
}

std::string PacketPrinter::details(const Packet &packet, const PacketExtra &extra, const Fetched &fetched) {
  auto condition = [&] {
    return " until & " + hex(extra.mask) + " == " + hex(extra.expected) + " within " +
           duration(extra.deadline);
  };
  auto ofPacket = [&] {
    return extra.link == noLink ? std::string("of no packet") : "of p" + std::to_string(extra.link);
  };
  auto range = [&] {
    std::string text = hex(packet.address) + ", " + std::to_string(extra.length) + " bytes";
    RowShape shaped = shapeOf(packet.kind).uses & KindShape::Rows ? rowsOf(extra) : RowShape();
    if (shaped.rows > 1)
      text += " in " + std::to_string(shaped.rows) + " rows " + std::to_string(shaped.stride) + " apart";
    return text;
  };
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
  case PacketKind::Submit:
  case PacketKind::CommandDone: return submission(packet, extra, fetched);
  case PacketKind::MemoryWrite:
    if (fetched.layout)
      return range() + ": " + formatEntry(*fetched.layout, fetched.content);
    return range();
  case PacketKind::MemoryRead:
  case PacketKind::Acquire:
  case PacketKind::MemoryMap:
  case PacketKind::MemoryUnmap:
  case PacketKind::Expectation: return range();
  case PacketKind::DmaDescriptor: {
    bool from = packet.flags & TransferFromDevice;
    std::string text =
        (from ? "from device " : "to device ") + hex(packet.value) + (from ? " to " : " from ") + range();
    if (extra.mask && rowsOf(extra).rows > 1)
      text += " (" + std::to_string(extra.mask) + " in the device)";
    if (known && extra.link < known->activities.size())
      text += " (" + known->activities[extra.link].name + ")";
    return text;
  }
  case PacketKind::DmaCompletion: return ofPacket() + (packet.value == 1 ? ", once more: " : ": ") + range();
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
  case PacketKind::CounterSnapshot: {
    bool named = known && packet.address < known->counters.size();
    std::string text =
        named ? known->counters[packet.address].name : "counter " + std::to_string(packet.address);
    text += " = " + std::to_string(packet.value);
    if (named && !known->counters[packet.address].unit.empty())
      text += " " + known->counters[packet.address].unit;
    return text;
  }
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
  Expected<Fetched> fetched = fetch(packet, extra);
  if (!fetched)
    return fetched.takeError();
  uint64_t start = reader.summary().firstTime;
  bool ofHost = clockOfStamps(packet) == 0;
  bool negative = ofHost && packet.issueTime < start;
  uint64_t since = ofHost ? (negative ? start - packet.issueTime : packet.issueTime - start)
                          : nanoseconds(packet, packet.issueTime);
  os << format("p%-8llu w%-6llu %s%llu.%09llus", static_cast<unsigned long long>(ordinal),
               static_cast<unsigned long long>(window),
               !ofHost    ? ""
               : negative ? "-"
                          : "+",
               static_cast<unsigned long long>(since / 1000000000),
               static_cast<unsigned long long>(since % 1000000000));
  if (reader.devices().size() > 1)
    os << " d" << packet.device;
  os << " t" << packet.thread << " " << left_justify(kindText(packet.kind), 14);
  if (shape.uses & KindShape::Name)
    os << " " << quoteUntrusted(fetched->name);
  std::string text = details(packet, extra, *fetched);
  if (!text.empty())
    os << " " << text;
  if (packet.completion != Completion::Done)
    os << " [" << completionText(packet.completion) << "]";
  if (packet.origin != Origin::Program)
    os << " [" << originText(packet.origin) << "]";
  for (const FlagName &flag : flagNames)
    if ((packet.flags & flag.bit) && !(flag.bit & (TransferToDevice | TransferFromDevice | Failed)))
      os << " [" << flag.name << "]";
  bool decoded = payload == Payload::Preview && fetched->layout; // The first bytes would say less.
  if (!(shape.uses & KindShape::Payload) || !extra.payload || payload == Payload::None || decoded) {
    os << "\n";
    return Error::success();
  }
  ArrayRef<uint8_t> content = fetched->content;
  if (payload == Payload::Whole) {
    os << "\n";
    RowShape shaped = shape.uses & KindShape::Rows ? rowsOf(extra) : RowShape{1, content.size(), 0};
    for (uint64_t row = 0; row < shaped.rows && !content.empty(); ++row) {
      size_t bytes = size_t(std::min<uint64_t>(std::max<uint64_t>(shaped.rowBytes, 1), content.size()));
      hexLines(os, content.take_front(bytes), packet.address + row * shaped.stride);
      content = content.drop_front(bytes);
    }
    return Error::success();
  }
  ArrayRef<uint8_t> start16 = content.take_front(previewBytes);
  os << " |" << toHex(start16, /*LowerCase=*/true) << (content.size() > previewBytes ? "..." : "") << "\n";
  return Error::success();
}

} // namespace tapeback
