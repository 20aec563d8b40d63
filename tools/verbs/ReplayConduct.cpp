#include "tools/verbs/ReplayConduct.h"
#include "format/Text.h"

using namespace llvm;

namespace tapeback {

ConductOptions::ConductOptions()
    : relocate("relocate",
               cl::desc("Where memory is put: auto (as recorded, elsewhere where the target cannot do that), "
                        "never, shift=BYTES, fragment, reverse or seed=N (default: auto)"),
               cl::value_desc("HOW"), cl::init("auto")) {}

Error ConductOptions::apply(ReplayOptions &options) const {
  Expected<MemoryLayout> layout = parseMemoryLayout(relocate);
  if (!layout)
    return layout.takeError();
  options.player.binding.layout = *layout;
  return Error::success();
}

void writeConduct(json::OStream &os, const ReplayReport &result) {
  os.attributeArray("relocation", [&] {
    for (const RelocationReport &device : result.relocation)
      os.object([&] {
        os.attribute("layout", device.layout);
        os.attribute("ranges", device.ranges);
        os.attribute("moved", device.moved);
        os.attribute("registers", device.registers);
        os.attribute("pointers", device.pointers);
      });
  });
}

void printConduct(raw_ostream &os, const ReplayReport &result) {
  for (const RelocationReport &device : result.relocation)
    if (device.moved)
      os << "memory: " << device.moved << " of " << device.ranges << " ranges elsewhere than recorded ("
         << device.layout << "); " << device.registers << " register writes and " << device.pointers
         << " addresses in memory changed\n";
}

} // namespace tapeback
