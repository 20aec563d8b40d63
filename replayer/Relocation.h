// A device's memory somewhere else than the tape has it: addresses, the registers and the pointers in memory
// that hold them, and the lists that are handed to the device.
//
// Everything outside of here speaks of recorded addresses; what the target is given, and nothing else, has
// placed ones.
#pragma once

#include "format/Failure.h"
#include "hal/Target.h"
#include "replayer/AddressRegisters.h"
#include "replayer/MemoryLayout.h"
#include "replayer/PointerPatches.h"
#include "replayer/Rows.h"
#include <vector>

namespace tapeback {

class DeviceBinding;

/// For reports.
struct RelocationReport {
  std::string layout;             ///< What was asked for.
  uint64_t ranges = 0, moved = 0; ///< Mapped; elsewhere than recorded.
  uint64_t registers = 0;         ///< Writes of address registers that were changed or added.
  uint64_t pointers = 0;          ///< Addresses in memory that were changed.
};

/// One device's. One thread. Failures of class Usage whose code begins with "relocation-" end a replay: what
/// follows could not be trusted.
class Relocation {
public:
  Relocation(const Description *description, const std::vector<std::string> &spaces,
             const MemoryLayout &layout, const RecordedExtent &extent)
      : map(), registers(description, spaces), layout(layout), description(description),
        placement(layout, description ? description->dmaMask : ~uint64_t(0), extent) {}

  bool moves() const { return map.moves(); }
  AddressMap map;
  AddressRegisters registers;
  PointerPatches pointers;

  /// Maps at a place of the layout's choice, and notes it.
  llvm::Expected<MemoryRegion> place(Target &target, uint64_t recorded, uint64_t size);
  void unmapped(uint64_t recorded);
  void reset();

  /// An entry is about to be stored: its addresses are learnt, so that they are changed on the way. Lists
  /// that begin in it wait for the doorbell.
  llvm::Error submitted(uint64_t queue, uint64_t address, llvm::ArrayRef<uint8_t> entry);
  bool hasLists() const { return !lists.empty(); }
  /// A register was written as recorded.
  void noted(const Packet &packet, const RegisterDescription &reg);
  /// A register is about to be written, whole. If it is a doorbell, the lists of the queue's entries are
  /// changed in the target's memory.
  llvm::Error written(DeviceBinding &binding, unsigned reg);
  /// A transfer was announced (`descriptor`), or seen to be done.
  llvm::Error transfer(uint64_t descriptor, const Packet &packet, const PacketExtra &extra);
  void completed(uint64_t descriptor);

  RelocationReport report() const;

private:
  struct List {
    uint64_t queue, first;
    const EntryForm *form;
    uint64_t page = 0, places = 0; ///< A list of pages' addresses: a page's size, how many pages there are.
  };
  struct Incoming {
    uint64_t descriptor;
    Rows rows;
  };
  llvm::Error follow(DeviceBinding &binding, const List &list);
  llvm::Error followPages(DeviceBinding &binding, const List &list);
  llvm::Error notePages(uint64_t queue, const EntryForm &form, llvm::ArrayRef<uint8_t> entry);
  llvm::Error checkNotIncoming(uint64_t address, uint64_t size) const;

  MemoryLayout layout;
  const Description *description;
  Placement placement;
  std::vector<List> lists;
  std::vector<Incoming> incoming; ///< What the device is still to write. Bounded.
  uint64_t ranges = 0, moved = 0;
};

/// A failure that makes a relocated replay meaningless.
bool isRelocationRefusal(const Failure &failure);

} // namespace tapeback
