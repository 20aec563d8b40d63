#include "tools/verbs/ExplainPolicy.h"
#include "tools/Report.h"

using namespace llvm;

namespace tapeback {
namespace {

std::string kindText(PacketKind kind) {
  const char *name = unsigned(kind) < packetKindCount ? packetKindName(kind) : nullptr;
  return name ? name : "unknown";
}

/// Empty if no packet concerns the register.
std::map<Rule, uint64_t> rulesOf(const ReplayReport &result, uint16_t device,
                                 const RegisterDescription *reg) {
  for (const PolicyCount &row : result.policies)
    if (row.device == device && row.reg == reg)
      return row.rules;
  return {};
}

void printRules(raw_ostream &os, const std::map<Rule, uint64_t> &rules) {
  const char *separator = "  ";
  if (rules.empty())
    os << "  no packet";
  for (auto [rule, count] : rules) {
    os << separator << count << " " << ruleName(rule);
    separator = ", ";
  }
  os << "\n";
}

void writeRules(json::OStream &os, const std::map<Rule, uint64_t> &rules) {
  os.attributeObject("rules", [&] {
    for (auto [rule, count] : rules)
      os.attribute(ruleName(rule), count);
  });
}

/// Bits that count, of a register read as a whole.
uint64_t comparedOf(const RegisterDescription &reg) {
  switch (reg.policy) {
  case ReplayPolicy::Ignore: return 0;
  case ReplayPolicy::Mask:
  case ReplayPolicy::PollUntil: return reg.compareMask & reg.widthMask();
  default: return reg.widthMask();
  }
}

} // namespace

void printPolicies(raw_ostream &os, const ReplayReport &result, TapeSource &source) {
  os << "policies, and how many packets each rule decided:\n";
  for (uint16_t device = 0; device < source.deviceCount(); ++device) {
    os << "  device " << source.reader().devices()[device].alias << "\n";
    if (const Description *description = source.description(device))
      for (const RegisterDescription &reg : description->registers) {
        os << "    " << reg.name << " (" << reg.space << "+" << hex(reg.offset) << ", "
           << registerClassName(reg.cls) << ", " << replayPolicyName(reg.policy) << ", compared "
           << hex(comparedOf(reg)) << ", polled " << hex(reg.pollMask) << ")";
        printRules(os, rulesOf(result, device, &reg));
      }
    for (const PolicyCount &row : result.policies)
      if (row.device == device && !row.reg) {
        os << "    " << kindText(row.kind);
        printRules(os, row.rules);
      }
  }
  os << "rules:\n";
  for (unsigned i = 0; i < ruleCount; ++i)
    os << "  " << gradeName(gradeOf(Rule(i))) << " " << ruleName(Rule(i)) << " " << result.grades.of(Rule(i))
       << ": " << ruleText(Rule(i)) << "\n";
}

void writePolicies(json::OStream &os, const ReplayReport &result, TapeSource &source) {
  os.attributeObject("policy", [&] {
    os.attributeArray("registers", [&] {
      for (uint16_t device = 0; device < source.deviceCount(); ++device)
        if (const Description *description = source.description(device))
          for (const RegisterDescription &reg : description->registers)
            os.object([&] {
              os.attribute("device", int64_t(device));
              os.attribute("register", json::fixUTF8(reg.name));
              os.attribute("space", json::fixUTF8(reg.space));
              os.attribute("offset", hex(reg.offset));
              os.attribute("class", registerClassName(reg.cls));
              os.attribute("policy", replayPolicyName(reg.policy));
              os.attribute("compared", hex(comparedOf(reg)));
              os.attribute("polled", hex(reg.pollMask));
              writeRules(os, rulesOf(result, device, &reg));
            });
    });
    os.attributeArray("kinds", [&] {
      for (const PolicyCount &row : result.policies)
        if (!row.reg)
          os.object([&] {
            os.attribute("device", int64_t(row.device));
            os.attribute("kind", kindText(row.kind));
            writeRules(os, row.rules);
          });
    });
    os.attributeArray("rules", [&] {
      for (unsigned i = 0; i < ruleCount; ++i)
        os.object([&] {
          os.attribute("rule", ruleName(Rule(i)));
          os.attribute("grade", gradeName(gradeOf(Rule(i))));
          os.attribute("packets", result.grades.of(Rule(i)));
          os.attribute("text", ruleText(Rule(i)));
        });
    });
  });
}

} // namespace tapeback
