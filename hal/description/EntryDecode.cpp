// Entries of queues and elements of lists, as numbers and as text. Their bytes are whatever a program or a
// tape has there: any value may come, and an entry may be too short.
#include "hal/description/Description.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace tapeback {

uint64_t EntryField::mask() const {
  unsigned bits = high >= low ? high - low + 1 : 0;
  return bits >= 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1;
}

uint64_t entryValue(const EntryField &field, llvm::ArrayRef<uint8_t> entry) {
  if (field.offset > entry.size() || entry.size() - field.offset < field.width || field.low > 63)
    return 0;
  uint64_t whole = 0;
  for (unsigned i = 0; i < field.width && i < 8; ++i)
    whole |= uint64_t(entry[field.offset + i]) << (8 * i);
  uint64_t value = (whole >> field.low) & field.mask();
  uint64_t sign = field.mask() ^ (field.mask() >> 1);
  return field.isSigned && (value & sign) ? value | ~field.mask() : value;
}

void setEntryValue(const EntryField &field, llvm::MutableArrayRef<uint8_t> entry, uint64_t value) {
  if (field.offset > entry.size() || entry.size() - field.offset < field.width || field.low > 63)
    return;
  uint64_t mask = field.mask() << field.low, bits = (value & field.mask()) << field.low;
  for (unsigned i = 0; i < field.width && i < 8; ++i) {
    uint8_t &byte = entry[field.offset + i];
    byte = uint8_t((byte & ~(mask >> (8 * i))) | (bits >> (8 * i)));
  }
}

const EntryField *EntryForm::find(llvm::StringRef name) const {
  auto found = llvm::find_if(fields, [&](const EntryField &field) { return field.name == name; });
  return found == fields.end() ? nullptr : &*found;
}

const EntryForm *LayoutDescription::formOf(llvm::ArrayRef<uint8_t> entry) const {
  if (entry.size() < size)
    return nullptr;
  if (!opcode)
    return forms.empty() ? nullptr : &forms.front();
  uint64_t wanted = entryValue(*opcode, entry);
  auto found = llvm::find_if(forms, [&](const EntryForm &form) { return form.opcode == wanted; });
  return found == forms.end() ? nullptr : &*found;
}

std::string formatEntry(const LayoutDescription &layout, llvm::ArrayRef<uint8_t> entry) {
  auto hex = [](uint64_t value) { return "0x" + llvm::utohexstr(value, /*LowerCase=*/true); };
  if (entry.size() < layout.size)
    return layout.name + ", " + std::to_string(entry.size()) + " of " + std::to_string(layout.size) +
           " bytes";
  const EntryForm *form = layout.formOf(entry);
  if (!form)
    return layout.opcode ? "opcode " + hex(entryValue(*layout.opcode, entry)) : layout.name;
  std::string text = form->name;
  for (const EntryField &field : form->fields) {
    uint64_t value = entryValue(field, entry);
    bool isBit = field.low == field.high;
    if (value == 0 && (isBit || field.name == "flags" || field.name == "tag"))
      continue;
    text += " " + field.name;
    if (isBit)
      continue;
    text += "=";
    if (field.address || field.hex)
      text += hex(value);
    else
      text += field.isSigned ? std::to_string(int64_t(value)) : std::to_string(value);
  }
  return text;
}

} // namespace tapeback
