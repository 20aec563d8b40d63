// How many packets each rule decided, register by register: what `replay --explain-policy` shows.
#pragma once

#include "format/Packet.h"
#include "replayer/AccessRules.h"
#include "replayer/Grade.h"
#include <map>
#include <vector>

namespace tapeback {

/// Packets of one device that concern one register (of which a description knows), or are of one kind.
struct PolicyCount {
  uint16_t device = 0;
  const RegisterDescription *reg =
      nullptr; ///< Null: `kind` says what; accesses that no register is known for.
  PacketKind kind = PacketKind::RegisterRead;
  std::map<Rule, uint64_t> rules;
};

/// Bounded by the descriptions' registers and the kinds, whatever the tape says. Descriptions must outlive
/// it.
class PolicyCounts {
public:
  /// `access` may be null.
  void add(const Packet &packet, const AccessRule *access, Rule rule);
  /// By device; registers in the description's order, then kinds.
  std::vector<PolicyCount> rows() const;

private:
  std::map<std::tuple<uint16_t, const RegisterDescription *, PacketKind>, std::map<Rule, uint64_t>> counts;
};

} // namespace tapeback
