// PacketPrinter's JSON.
#include "format/Failure.h"
#include "tools/PacketPrinter.h"
#include "tools/PacketShape.h"
#include "tools/Report.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace tapeback {

Expected<PacketPrinter::Fetched> PacketPrinter::fetch(const Packet &packet, const PacketExtra &extra) {
  const KindShape &shape = shapeOf(packet.kind);
  Fetched fetched;
  if (shape.uses & KindShape::Name) {
    Expected<std::string> text = name(extra);
    if (!text)
      return text.takeError();
    fetched.name = std::move(*text);
    return fetched;
  }
  if (!(shape.uses & KindShape::Payload) || !extra.payload)
    return fetched;
  const LayoutDescription *layout = layoutOf(packet, extra);
  if (payload == Payload::None && !layout)
    return fetched;
  Expected<ArrayRef<uint8_t>> content = reader.blob(extra.payload);
  if (!content)
    return content.takeError();
  fetched.content = *content;
  if (layout && !content->empty()) {
    fetched.layout = layout;
    follow(packet, *layout, *content);
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

/// What the command is, beside the bytes of it. Host addresses, and what the description prints so, are
/// hexadecimal.
void PacketPrinter::writeEntry(json::OStream &os, const LayoutDescription &layout, ArrayRef<uint8_t> entry) {
  const EntryForm *form = layout.formOf(entry);
  os.attribute("command", form ? json::Value(form->name) : json::Value(nullptr));
  os.attribute("text", formatEntry(layout, entry));
  if (!form)
    return;
  os.attributeObject("operands", [&] {
    for (const EntryField &field : form->fields) {
      uint64_t value = entryValue(field, entry);
      if (field.address || field.hex)
        os.attribute(field.name, hex(value));
      else if (field.isSigned)
        os.attribute(field.name, int64_t(value));
      else
        os.attribute(field.name, value);
    }
  });
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
    else if (packet.kind == PacketKind::Submit || packet.kind == PacketKind::CommandDone) {
      os.attribute("queue", packet.value);
      os.attribute("index", extra.count);
      if (fetched.layout)
        os.attribute("queue_name", known->queues[packet.value].name);
    } else if (packet.kind == PacketKind::DmaCompletion)
      os.attribute("again", packet.value == 1);
    else if (shape.value)
      os.attribute(shape.value, hex(packet.value));
    if (fetched.layout)
      writeEntry(os, *fetched.layout, content);
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
    if (shape.uses & KindShape::Rows) {
      RowShape shaped = rowsOf(extra);
      os.attribute("rows", shaped.rows);
      os.attribute("row_bytes", shaped.rowBytes);
      os.attribute("host_stride", shaped.stride);
      if (packet.kind == PacketKind::DmaDescriptor)
        os.attribute("device_stride", shaped.rows > 1 ? extra.mask : 0);
    }
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
