#include "replayer/PolicyCounts.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

namespace tapeback {

void PolicyCounts::add(const Packet &packet, const AccessRule *access, Rule rule) {
  const RegisterDescription *reg = access ? access->reg : nullptr;
  // All accesses of a register in one row; kinds that nobody knows in one, too.
  PacketKind kind = reg                                       ? PacketKind::RegisterRead
                    : unsigned(packet.kind) < packetKindCount ? packet.kind
                                                              : PacketKind(packetKindCount);
  ++counts[{packet.device, reg, kind}][rule];
}

std::vector<PolicyCount> PolicyCounts::rows() const {
  std::vector<PolicyCount> result;
  for (const auto &[key, rules] : counts) {
    const auto &[device, reg, kind] = key;
    result.push_back({device, reg, kind, rules});
  }
  // A description's registers lie one behind the other.
  llvm::stable_sort(result, [](const PolicyCount &a, const PolicyCount &b) {
    if (a.device != b.device)
      return a.device < b.device;
    if (!a.reg != !b.reg)
      return bool(a.reg);
    return a.reg ? std::less<>()(a.reg, b.reg) : a.kind < b.kind;
  });
  return result;
}

} // namespace tapeback
