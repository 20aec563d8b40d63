#include "replayer/reduce/Lengths.h"
#include "replayer/Commands.h"
#include "replayer/Rows.h"
#include <set>

namespace tapeback {

void Length::set(Selection &selection, uint64_t value) const {
  for (uint32_t packet : packets)
    (isRows ? selection.changes[packet].rows : selection.changes[packet].rowBytes) = value;
  if (registerWrite)
    selection.changes[*registerWrite].value = value;
  if (entry)
    selection.changes[entry->first].fields[entry->second] = value;
}

namespace {

class Finding {
public:
  Finding(const TapeImage &image, const Selection &selection) : image(image), selection(selection) {}

  llvm::Expected<std::vector<Length>> run() {
    for (uint32_t i = 0; i < image.packets.size(); ++i)
      if (selection.kept[i] && image.packets[i].kind == PacketKind::DmaCompletion)
        completions[image.extras[i].link].push_back(i);
    for (uint32_t i = 0; i < image.packets.size(); ++i) {
      if (!selection.kept[i])
        continue;
      if (registerWritten(*image.source, image.packets[i]))
        lastWrite[{image.packets[i].device, image.packets[i].space, image.packets[i].address}] = i;
      if (image.packets[i].kind == PacketKind::DmaDescriptor)
        if (llvm::Error error = transfer(i))
          return error;
    }
    for (uint32_t i = 0; i < image.packets.size(); ++i)
      if (selection.kept[i] && standsAlone(i))
        add({{i}, false, 0, {}, {}}, {{i}, true, 0, {}, {}});
    std::stable_sort(found.begin(), found.end(),
                     [](const Length &a, const Length &b) { return a.packets.front() > b.packets.front(); });
    return std::move(found);
  }

private:
  bool standsAlone(uint32_t i) const {
    switch (image.packets[i].kind) {
    case PacketKind::MemoryWrite: return image.fills[i] == TapeImage::none && !bound.count(i);
    case PacketKind::MemoryRead:
    case PacketKind::Acquire: return true;
    default: return false;
    }
  }

  /// How much the first packet moves now; nothing if its rows make no sense.
  std::optional<Rows> shapeOf(uint32_t i) const {
    llvm::Expected<Rows> rows = Rows::of(image.packets[i], image.extras[i]);
    if (!rows) {
      llvm::consumeError(rows.takeError()); // Nothing that can be cut.
      return std::nullopt;
    }
    if (auto change = selection.changes.find(i); change != selection.changes.end()) {
      rows->count = std::min(rows->count, change->second.rows.value_or(rows->count));
      rows->rowBytes = std::min(rows->rowBytes, change->second.rowBytes.value_or(rows->rowBytes));
    }
    return *rows;
  }

  void add(Length bytes, Length rows) {
    std::optional<Rows> shape = shapeOf(bytes.packets.front());
    if (!shape)
      return;
    rows.present = shape->count;
    bytes.present = shape->rowBytes;
    if (rows.present > 1)
      found.push_back(std::move(rows));
    if (bytes.present > 1)
      found.push_back(std::move(bytes));
  }

  llvm::Error transfer(uint32_t i) {
    Length bytes, rows;
    bytes.packets = {i};
    for (uint32_t completion : completions[i])
      bytes.packets.push_back(completion);
    // The content as it was captured for the transfer.
    bool handedOver = i && selection.kept[i - 1] && image.packets[i - 1].kind == PacketKind::MemoryWrite &&
                      image.packets[i - 1].address == image.packets[i].address &&
                      image.extras[i - 1].length == image.extras[i].length &&
                      image.fills[i - 1] == TapeImage::none;
    if (handedOver)
      bytes.packets.push_back(i - 1);
    rows.packets = bytes.packets;
    rows.isRows = true;
    llvm::Expected<bool> said =
        image.extras[i].link == noLink ? byCommand(i, bytes, rows) : byRegister(i, bytes);
    if (!said)
      return said.takeError();
    if (!*said)
      return llvm::Error::success();
    if (handedOver)
      bound.insert(i - 1);
    if (!rows.entry)
      rows.packets = {i}; // One row: nothing to be found.
    add(std::move(bytes), std::move(rows));
    return llvm::Error::success();
  }

  llvm::Expected<bool> byCommand(uint32_t i, Length &bytes, Length &rows) const {
    uint32_t submit = image.needs[i];
    const Packet &transfer = image.packets[i];
    const Description *description = image.source->description(transfer.device);
    if (submit == TapeImage::none || !description || !image.extras[submit].payload ||
        image.packets[submit].kind != PacketKind::Submit ||
        image.packets[submit].value >= description->queues.size())
      return false;
    llvm::Expected<llvm::ArrayRef<uint8_t>> entry = image.source->reader().blob(image.extras[submit].payload);
    if (!entry)
      return entry.takeError();
    const EntryForm *form =
        description->layouts[description->queues[size_t(image.packets[submit].value)].layout].formOf(*entry);
    llvm::Expected<Rows> shape = Rows::of(transfer, image.extras[i]);
    if (!form || !shape) {
      if (!shape)
        llvm::consumeError(shape.takeError()); // Nothing that can be cut.
      return false;
    }
    auto valueOf = [&](unsigned field) { return entryValue(form->fields[field], *entry); };
    for (const EntryTransfer &candidate : form->transfers) {
      // A field that counts bytes as they are; other units are not followed.
      const std::optional<unsigned> field = candidate.rowBytes;
      bool is = field && (!candidate.when || candidate.when->holds(valueOf(candidate.when->field))) &&
                candidate.toDevice == bool(transfer.flags & TransferToDevice) &&
                valueOf(candidate.hostAddress) == transfer.address && valueOf(*field) == shape->rowBytes &&
                (candidate.rows ? valueOf(*candidate.rows) : 1) == shape->count;
      if (!is)
        continue;
      bytes.entry = {submit, *field};
      if (candidate.rows)
        rows.entry = {submit, *candidate.rows};
      return true;
    }
    return false;
  }

  llvm::Expected<bool> byRegister(uint32_t i, Length &bytes) const {
    const Packet &transfer = image.packets[i];
    const Description *description = image.source->description(transfer.device);
    if (!description || image.extras[i].link >= description->activities.size())
      return false;
    for (const TransferDescription &candidate :
         description->activities[size_t(image.extras[i].link)].transfers) {
      if (candidate.toDevice != bool(transfer.flags & TransferToDevice))
        continue;
      for (const auto &[place, write] : lastWrite) {
        const RegisterDescription *reg = registerWritten(*image.source, image.packets[write]);
        if (std::get<0>(place) == transfer.device && description->indexOf(*reg) == candidate.count &&
            image.packets[write].address == reg->offset &&
            image.packets[write].value == image.extras[i].length) {
          bytes.registerWrite = write;
          return true;
        }
      }
    }
    return false;
  }

  const TapeImage &image;
  const Selection &selection;
  std::map<uint64_t, std::vector<uint32_t>> completions;                  ///< By descriptor.
  std::map<std::tuple<uint16_t, uint16_t, uint64_t>, uint32_t> lastWrite; ///< By device, space, address.
  std::set<uint32_t> bound; ///< Contents that go with a transfer.
  std::vector<Length> found;
};

} // namespace

llvm::Expected<std::vector<Length>> findLengths(const TapeImage &image, const Selection &selection) {
  return Finding(image, selection).run();
}

} // namespace tapeback
