#include "tools/verbs/ReplayConduct.h"
#include "format/Text.h"

using namespace llvm;

namespace tapeback {

ConductOptions::ConductOptions()
    : relocate("relocate",
               cl::desc("Where memory is put: auto (as recorded, elsewhere where the target cannot do that), "
                        "never, shift=BYTES, fragment, reverse or seed=N (default: auto)"),
               cl::value_desc("HOW"), cl::init("auto")),
      timing("timing",
             cl::desc("When packets are issued: fast (as fast as possible), original (the recorded gaps), "
                      "scale=X, or stress=SEED (gaps changed at random, the order kept; also "
                      "scale=X,stress=SEED) (default: fast)"),
             cl::value_desc("WHEN"), cl::init("fast")),
      lanes("lanes",
            cl::desc("Operations of threads that overlapped keep each thread's order only, and what had "
                     "come back before another began")) {}

Error ConductOptions::apply(ReplayOptions &options) const {
  Expected<MemoryLayout> layout = parseMemoryLayout(relocate);
  if (!layout)
    return layout.takeError();
  options.player.binding.layout = *layout;
  Expected<PacingOptions> pacing = parsePacing(timing);
  if (!pacing)
    return pacing.takeError();
  options.player.pacing = *pacing;
  options.lanes = lanes;
  options.player.pacing.maxGap = options.player.waits.maxDeadline;
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
  os.attributeArray("machines", [&] {
    for (const DeviceMachine &one : result.machines)
      os.object([&] {
        const MachineReport &machine = one.machine;
        auto text = [](const std::string &words) {
          return words.empty() ? json::Value(nullptr) : json::Value(json::fixUTF8(words));
        };
        os.attribute("device", int64_t(one.device));
        os.attribute("survived", !machine.ended && machine.answered == machine.commands);
        os.attribute("commands", machine.commands);
        os.attribute("answered", machine.answered);
        os.attribute("refused", machine.refused);
        os.attribute("signal", machine.signal ? json::Value(machine.signal) : json::Value(nullptr));
        os.attribute("exit",
                     machine.ended && !machine.signal ? json::Value(machine.exitCode) : json::Value(nullptr));
        os.attribute("last_words", text(machine.lastWords));
        os.attribute("command", text(machine.command));
      });
  });
  os.attributeObject("lanes", [&] {
    os.attribute("clusters", result.lanes.clusters);
    os.attribute("packets", result.lanes.packets);
    os.attribute("overtaken", result.lanes.overtaken);
  });
  const PacingReport &pacing = result.pacing;
  os.attributeObject("timing", [&] {
    os.attribute("timing", pacing.timing);
    os.attribute("stretches", pacing.stretches);
    if (!pacing.gaps)
      return;
    os.attribute("clock", pacing.clock);
    os.attribute("gaps", pacing.gaps);
    os.attribute("gaps_ns", pacing.wanted);
    os.attribute("gaps_cut", pacing.cut);
    os.attribute("gap_error_p50_ns", pacing.p50);
    os.attribute("gap_error_p99_ns", pacing.p99);
    os.attribute("gap_error_max_ns", pacing.max);
    os.attribute("pinned", pacing.pinned);
  });
}

void printConduct(raw_ostream &os, const ReplayReport &result) {
  for (const RelocationReport &device : result.relocation)
    if (device.moved)
      os << "memory: " << device.moved << " of " << device.ranges << " ranges elsewhere than recorded ("
         << device.layout << "); " << device.registers << " register writes and " << device.pointers
         << " addresses in memory changed\n";
  for (const DeviceMachine &one : result.machines) {
    const MachineReport &machine = one.machine;
    os << "machine: "
       << (machine.ended                         ? "died"
           : machine.answered < machine.commands ? "hung"
                                                 : "survived")
       << ", " << machine.answered << " of " << machine.commands << " commands answered, " << machine.refused
       << " refused" << (machine.refused ? " (neither passed nor failed)" : "") << "\n";
    if (machine.ended)
      os << "  " << (machine.signal ? "signal " : "exit code ")
         << (machine.signal ? machine.signal : machine.exitCode)
         << (machine.command.empty() ? std::string(", with everything answered")
                                     : " at '" + machine.command + "'")
         << (machine.lastWords.empty() ? std::string(", without a word") : ": " + machine.lastWords) << "\n";
  }
  if (result.lanes.packets)
    os << "lanes: " << result.lanes.packets << " packets that overlapped, in " << result.lanes.clusters
       << " groups; " << result.lanes.overtaken << " done in another order than recorded\n";
  const PacingReport &pacing = result.pacing;
  if (pacing.gaps)
    os << "timing: " << pacing.timing << ", " << pacing.gaps << " gaps of " << pacing.wanted / 1000
       << " us together on the " << pacing.clock << "'s clock; missed by " << pacing.p50 << " ns (p50), "
       << pacing.p99 << " ns (p99)" << (pacing.cut ? "; the longest were cut" : "")
       << (pacing.pinned ? "" : "; not pinned in memory") << "\n";
}

} // namespace tapeback
