#include "replayer/Relocation.h"
#include "replayer/DeviceBinding.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace tapeback {

bool isRelocationRefusal(const Failure &failure) {
  return failure.code.compare(0, 11, "relocation-") == 0;
}

static std::string at(uint64_t address) {
  return "0x" + llvm::utohexstr(address, true);
}

llvm::Expected<MemoryRegion> Relocation::place(Target &target, uint64_t recorded, uint64_t size) {
  bool free = target.capabilities().chooseIova;
  for (unsigned attempt = free || layout.kind != MemoryLayout::Kind::Automatic ? 0 : 1;; ++attempt) {
    llvm::Expected<std::optional<uint64_t>> wish = placement.propose(recorded, size, map, attempt);
    if (!wish)
      return wish.takeError();
    MapRequest request;
    request.size = size;
    request.iova = *wish;
    llvm::Expected<MemoryRegion> region = target.map(request);
    if (!region) {
      Failure failure = toFailure(region.takeError());
      if (failure.code == "iova-unavailable" && attempt + 1 < placement.attempts())
        continue;
      return llvm::make_error<Failure>(std::move(failure));
    }
    llvm::Error error = llvm::Error::success();
    if ((*wish && region->iova != **wish) || region->size < size)
      error = failTarget("iova-unavailable", "the target placed memory elsewhere than at " + at(**wish));
    else if (region->iova != recorded && !description)
      error =
          failUsage("relocation-unknown",
                    std::to_string(size) + " bytes at " + at(recorded) + " would be at " + at(region->iova) +
                        " here, and without a description nothing says where the device is told of them",
                    "target '" + target.identity().uri + "'", "--description FILE");
    else
      error = placement.checkReach(recorded, region->iova, size);
    if (!error)
      error = map.add({recorded, region->iova, size});
    if (error)
      return llvm::joinErrors(std::move(error), target.unmap(region->iova));
    ++ranges;
    moved += region->iova != recorded;
    return region;
  }
}

void Relocation::unmapped(uint64_t recorded) {
  if (const PlacedRange *range = map.find(recorded))
    pointers.forget(range->recorded, range->size);
  map.remove(recorded);
}

void Relocation::noted(const Packet &packet, const RegisterDescription &reg) {
  if (LLVM_LIKELY(!registers.isPart(description->indexOf(reg))) && description->resets.empty())
    return;
  bool whole = reg.offset == packet.address && reg.width == packet.width;
  for (const RegisterCondition &condition : description->resets)
    if (whole && condition.reg == description->indexOf(reg) && condition.holds(packet.value))
      reset();
  registers.note(packet);
}

void Relocation::reset() {
  registers.reset();
  lists.clear();
  incoming.clear();
}

llvm::Error Relocation::submitted(uint64_t queue, uint64_t address, llvm::ArrayRef<uint8_t> entry) {
  constexpr size_t mostLists = 1 << 16; // A queue has no more entries than that.
  if (!moves() || !description || queue >= description->queues.size())
    return llvm::Error::success();
  const LayoutDescription &layout = description->layouts[description->queues[queue].layout];
  if (entry.size() < layout.size)
    return llvm::Error::success();
  const EntryForm *form = layout.formOf(entry);
  if (!form)
    return llvm::Error::success();
  if (llvm::Error error = pointers.learn(map, address, *form, entry))
    return error;
  if (llvm::Error error = notePages(queue, *form, entry))
    return error;
  if (!form->chain)
    return llvm::Error::success();
  const EntryForm::Chain &chain = *form->chain;
  if (chain.last && chain.last->holds(entryValue(form->fields[chain.last->field], entry)))
    return llvm::Error::success();
  if (lists.size() >= mostLists)
    return failUsage("relocation-limit", "more lists than a queue can have entries");
  lists.push_back({queue, entryValue(form->fields[chain.address], entry), form});
  return llvm::Error::success();
}

llvm::Error Relocation::written(DeviceBinding &binding, unsigned reg) {
  if (!description)
    return llvm::Error::success();
  for (size_t i = 0; i < lists.size();) {
    if (description->queues[lists[i].queue].doorbell != reg) {
      ++i;
      continue;
    }
    List list = lists[i];
    lists.erase(lists.begin() + ptrdiff_t(i));
    if (llvm::Error error = list.page ? followPages(binding, list) : follow(binding, list))
      return error;
  }
  return llvm::Error::success();
}

llvm::Error Relocation::checkNotIncoming(uint64_t address, uint64_t size) const {
  for (const Incoming &range : incoming)
    for (uint64_t row = 0; row < range.rows.count; ++row) {
      uint64_t start = range.rows.rowAddress(row);
      if (start - address < size || address - start < range.rows.rowBytes)
        return failUsage("relocation-unknown", "the list element at " + at(address) +
                                                   " is written by the device itself (packet " +
                                                   std::to_string(range.descriptor) +
                                                   "): its addresses cannot be changed before it is read");
    }
  return llvm::Error::success();
}

/// Lists of pages' addresses that an entry names, if more than two pages are moved.
llvm::Error Relocation::notePages(uint64_t queue, const EntryForm &form, llvm::ArrayRef<uint8_t> entry) {
  constexpr size_t mostLists = 1 << 16;
  for (const EntryTransfer &transfer : form.transfers) {
    if (!transfer.pages ||
        (transfer.when && !transfer.when->holds(entryValue(form.fields[transfer.when->field], entry))))
      continue;
    uint64_t bytes =
        ((transfer.rowBytes ? entryValue(form.fields[*transfer.rowBytes], entry) : 0) + transfer.plus) *
        transfer.times;
    uint64_t page = transfer.pages->size;
    uint64_t first = page - (entryValue(form.fields[transfer.hostAddress], entry) & (page - 1));
    if (bytes <= first || bytes - first <= page)
      continue;
    if (lists.size() >= mostLists)
      return failUsage("relocation-limit", "more lists than a queue can have entries");
    lists.push_back({queue, entryValue(form.fields[transfer.pages->second], entry), &form, page,
                     (bytes - first + page - 1) / page});
  }
  return llvm::Error::success();
}

/// Each place holds the address of a page, but for the last in a page of the list, if more than one page is
/// left: that of where the list goes on.
llvm::Error Relocation::followPages(DeviceBinding &binding, const List &list) {
  EntryForm form;
  form.name = list.form->name + "'s list of pages";
  form.fields.emplace_back();
  form.fields.front().name = "page";
  form.fields.front().width = 8;
  form.fields.front().high = 63;
  form.fields.front().address = true;
  uint64_t address = list.first;
  uint8_t place[8];
  for (uint64_t left = list.places; left;) {
    if (!binding.isMapped(address, 8))
      return llvm::Error::success(); // It ends here for the device, too.
    if (llvm::Error error = checkNotIncoming(address, 8))
      return error;
    if (llvm::Error error = binding.readMemory(address, place))
      return error;
    if (llvm::Error error = pointers.learn(map, address, form, place))
      return error;
    if (llvm::Error error = binding.writeMemory(address, place))
      return error;
    bool goesOn = (address & (list.page - 1)) + 8 >= list.page && left > 1;
    left -= goesOn ? 0 : 1;
    if (goesOn && entryValue(form.fields.front(), place) == address)
      return llvm::Error::success(); // Round and round.
    address = goesOn ? entryValue(form.fields.front(), place) : address + 8;
  }
  return llvm::Error::success();
}

/// The elements as the target's memory has them: what is not mapped, or of no known form, ends the list for
/// the device, too.
llvm::Error Relocation::follow(DeviceBinding &binding, const List &list) {
  const EntryForm *form = list.form;
  uint64_t address = list.first;
  std::vector<uint8_t> element;
  for (unsigned count = 0; count < list.form->chain->limit && form->chain; ++count) {
    const LayoutDescription &layout = description->layouts[form->chain->layout];
    if (!binding.isMapped(address, layout.size))
      return llvm::Error::success();
    if (llvm::Error error = checkNotIncoming(address, layout.size))
      return error;
    element.resize(layout.size);
    if (llvm::Error error = binding.readMemory(address, element))
      return error;
    form = layout.formOf(element);
    if (!form)
      return llvm::Error::success();
    if (llvm::Error error = pointers.learn(map, address, *form, element))
      return error;
    if (llvm::Error error = binding.writeMemory(address, element))
      return error;
    if (!form->chain)
      return llvm::Error::success();
    const EntryForm::Chain &chain = *form->chain;
    if (chain.last && chain.last->holds(entryValue(form->fields[chain.last->field], element)))
      return llvm::Error::success();
    address = entryValue(form->fields[chain.address], element);
  }
  return llvm::Error::success();
}

llvm::Error Relocation::transfer(uint64_t descriptor, const Packet &packet, const PacketExtra &extra) {
  constexpr size_t mostIncoming = 1 << 14;
  if (!moves())
    return llvm::Error::success();
  llvm::Expected<Rows> rows = Rows::of(packet, extra);
  if (!rows) {
    llvm::consumeError(rows.takeError()); // Beyond any memory: nothing of it can have moved.
    return llvm::Error::success();
  }
  for (uint64_t row = 0; row < rows->count && rows->rowBytes; ++row) {
    uint64_t address = rows->rowAddress(row);
    if (map.piece(address, rows->rowBytes).size < rows->rowBytes)
      return failUsage("relocation-split", "a transfer of " + std::to_string(rows->rowBytes) + " bytes at " +
                                               at(address) +
                                               " runs from one range into its neighbour, which is not its "
                                               "neighbour in this layout");
  }
  if (!(packet.flags & TransferFromDevice))
    return llvm::Error::success();
  if (incoming.size() >= mostIncoming)
    incoming.erase(incoming.begin()); // The oldest: long done, and nobody looked.
  incoming.push_back({descriptor, *rows});
  return llvm::Error::success();
}

void Relocation::completed(uint64_t descriptor) {
  auto found = llvm::find_if(incoming, [&](const Incoming &one) { return one.descriptor == descriptor; });
  if (found != incoming.end())
    incoming.erase(found);
}

RelocationReport Relocation::report() const {
  return {memoryLayoutText(layout), ranges, moved, registers.rewritten, pointers.patched};
}

} // namespace tapeback
