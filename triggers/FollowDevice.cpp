// What an evaluator follows of the device: registers and counters last seen, entries, lists, its clock.
#include "triggers/Compiler.h"
#include "triggers/Evaluator.h"

using namespace llvm;

namespace tapeback::triggers {

void Evaluator::updateSlot(uint32_t index) {
  const SlotDescription &description = compiled.slots[index];
  const Packet &packet = *packetNow;
  if (packet.completion != Completion::Done && packet.completion != Completion::TimedOut)
    return;
  if (packet.kind == PacketKind::RegisterWrite && !description.keepsWrites)
    return;
  SlotState &slot = slots[index];
  uint64_t value = packet.value, mask = bitsBelow(description.widthBits);
  if (!description.isCounter) {
    const RegisterPlace &place = description.place;
    if (!placeMatches(place, packet, true) || !packet.width || packet.width > 8)
      return;
    // The bytes that this access saw, in place; the others are as they were.
    uint64_t seen = bitsBelow(packet.width * 8);
    uint64_t distance =
        packet.address >= place.offset ? packet.address - place.offset : place.offset - packet.address;
    unsigned shift = unsigned(distance) * 8;
    if (shift >= 64)
      return;
    value &= seen;
    value = packet.address >= place.offset ? value << shift : value >> shift;
    seen = packet.address >= place.offset ? seen << shift : seen >> shift;
    seen &= mask;
    if (seen != mask && !slot.known)
      return; // Part of it says nothing about the rest.
    value = (value & seen) | (slot.value & ~seen);
  }
  slot.previous = slot.value;
  slot.previousAt = slot.seenAt;
  slot.previousKnown = slot.known;
  slot.value = value & mask;
  slot.seenAt = timeNow;
  slot.known = true;
  slot.step = step;
}

void Evaluator::followEntry() {
  const Packet &packet = *packetNow;
  const Description *description =
      packet.device < compiled.devices.size() ? compiled.devices[packet.device] : nullptr;
  if (!description)
    return;
  if (packet.kind == PacketKind::Submit) {
    element.reset();
    if (packet.value >= description->queues.size())
      return;
    const LayoutDescription &layout = description->layouts[description->queues[packet.value].layout];
    ArrayRef<uint8_t> entry = content();
    if (entry.size() < layout.size)
      return;
    if (const EntryForm *form = layout.formOf(entry)) {
      entryNow = {&layout, form};
      if (form->chain)
        followElement(*description, *form, entry, form->chain->limit);
    }
    return;
  }
  // A list's next element, captured where the one before it said.
  if (!element || element->device != packet.device || element->address != packet.address)
    return;
  const LayoutDescription &layout = *element->layout;
  ArrayRef<uint8_t> entry = content();
  uint32_t left = element->left;
  element.reset();
  if (entry.size() < layout.size)
    return;
  const EntryForm *form = layout.formOf(entry);
  if (!form)
    return;
  entryNow = {&layout, form};
  if (form->chain && left > 1)
    followElement(*description, *form, entry, left - 1);
}

void Evaluator::followElement(const Description &description, const EntryForm &form, ArrayRef<uint8_t> entry,
                              uint32_t left) {
  const EntryForm::Chain &chain = *form.chain;
  if (chain.last && chain.last->holds(entryValue(form.fields[chain.last->field], entry)))
    return;
  element = Element{packetNow->device, entryValue(form.fields[chain.address], entry), left,
                    &description.layouts[chain.layout]};
}

void Evaluator::sampleClock() {
  const Packet &packet = *packetNow;
  if (!packet.clock || packet.device >= deviceNow.size())
    return;
  uint64_t &device = deviceNow[packet.device];
  uint64_t sample = nanoseconds(packet.clock, packet.value);
  bool first = device == noTime;
  device = first ? sample : std::max(device, sample);
  if (!first)
    return;
  // What began before the first sample began at it, as far as this clock can tell.
  for (uint32_t t = 0; t < triggers.size(); ++t)
    if (compiled.triggers[t].device == packet.device && triggers[t].enteredDevice == noTime)
      triggers[t].enteredDevice = device;
  for (uint32_t i = 0; i < timers.size(); ++i)
    if (compiled.triggers[compiled.timers[i].trigger].device == packet.device && timers[i].device == noTime)
      timers[i].device = device;
}

ArrayRef<uint8_t> Evaluator::content() const {
  if (!contentFetched && extraNow && fetchNow) {
    contentFetched = true;
    contentNow = {};
    if (extraNow->payload) {
      contentNow = (*fetchNow)(extraNow->payload);
      missingContents += contentNow.empty();
    }
  }
  return contentNow;
}

} // namespace tapeback::triggers
