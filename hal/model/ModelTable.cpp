#include "hal/model/ModelTable.h"
#include "hal/model/ModelChannel.h"
#include "hal/model/tapeback_model.h"

namespace tapeback {
namespace {

using namespace modelhost;

std::string takeName(WireReader &body) {
  size_t length = 0;
  const char *text = body.string(maxNameBytes, &length);
  return text ? printableText(llvm::StringRef(text, length)) : std::string();
}

uint32_t takeCount(WireReader &body, uint32_t most) {
  uint32_t count = body.get<uint32_t>();
  if (count > most)
    body.failed = true;
  return body.failed ? 0 : count;
}

} // namespace

std::optional<ModelTable> parseModelTable(WireReader &body) {
  ModelTable table;
  table.abiMajor = body.get<uint16_t>();
  table.abiMinor = body.get<uint16_t>();
  table.capabilities = body.get<uint32_t>();
  table.vectors = takeCount(body, maxVectors);
  table.counters = takeCount(body, maxCounters);
  table.name = takeName(body);
  for (uint32_t left = takeCount(body, maxFacts); left && !body.failed; --left) {
    std::string key = takeName(body);
    table.facts[std::move(key)] = takeName(body);
  }
  for (uint32_t left = takeCount(body, maxSpaces); left && !body.failed; --left) {
    std::string name = takeName(body);
    table.spaces.push_back({std::move(name), body.get<uint64_t>()});
  }
  for (uint32_t left = takeCount(body, maxWindows); left && !body.failed; --left) {
    std::string name = takeName(body);
    table.windows.push_back({std::move(name), body.get<uint64_t>()});
  }
  if (body.failed || body.left() || table.name.empty())
    return std::nullopt;
  return table;
}

TargetCapabilities ModelTable::targetCapabilities(unsigned maxSnapshots) const {
  TargetCapabilities can;
  can.registers = !spaces.empty();
  can.memory = can.chooseIova = capabilities & TAPEBACK_MODEL_CAP_MEMORY;
  can.interrupts = (capabilities & TAPEBACK_MODEL_CAP_INTERRUPTS) && vectors;
  can.interruptVectors = can.interrupts ? vectors : 0;
  can.reset = true;
  can.counters = capabilities & TAPEBACK_MODEL_CAP_COUNTERS;
  can.deviceTime = capabilities & TAPEBACK_MODEL_CAP_DEVICE_TIME;
  can.peek = capabilities & TAPEBACK_MODEL_CAP_PEEK;
  can.snapshots = capabilities & TAPEBACK_MODEL_CAP_SNAPSHOT;
  can.trace = capabilities & TAPEBACK_MODEL_CAP_TRACE;
  can.maxSnapshots = can.snapshots ? maxSnapshots : 0;
  return can;
}

} // namespace tapeback
