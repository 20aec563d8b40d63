// The replayer's results as the contract's JSON: shared by `replay` and `bisect`.
#pragma once

#include "replayer/Replay.h"
#include "tools/Report.h"

namespace tapeback {

inline Place placeOf(const PacketPlace &place) {
  return Place{place.device, place.thread, place.window, place.packet, place.marker, place.command};
}

/// `first_divergence`, with what goes beyond the contract at its end.
inline void writeDivergence(llvm::json::OStream &os, llvm::StringRef key,
                            const std::optional<Divergence> &divergence, llvm::StringRef expectedName,
                            llvm::StringRef actualName) {
  std::optional<DivergenceReport> report;
  if (divergence) {
    report.emplace();
    report->place = placeOf(divergence->place);
    report->kind = divergence->kind;
    report->space = divergence->space;
    report->address = divergence->address;
    if (!divergence->reg.empty())
      report->reg = divergence->reg;
    if (!divergence->field.empty())
      report->field = divergence->field;
    report->offset = divergence->offset;
    report->first = divergence->expected;
    report->second = divergence->actual;
  }
  writeDivergence(os, key, report, expectedName, actualName, [&](llvm::json::OStream &more) {
    more.attribute("grade", gradeName(divergence->grade));
    more.attribute("rule", ruleName(divergence->rule));
    more.attribute("occurrence", divergence->place.markerOccurrence);
    more.attribute("command_text",
                   divergence->place.commandText.empty()
                       ? llvm::json::Value(nullptr)
                       : llvm::json::Value(llvm::json::fixUTF8(divergence->place.commandText)));
    more.attribute("prefix", divergence->prefix);
    more.attribute("concurrent", divergence->concurrent);
    more.attribute("poisoned", divergence->poisoned);
    if (!divergence->failure.empty())
      more.attribute("failure", llvm::json::fixUTF8(divergence->failure));
  });
}

inline void writeGrades(llvm::json::OStream &os, const GradeCounts &counts) {
  os.attributeObject("grades", [&] {
    for (unsigned grade = 0; grade < gradeCount; ++grade)
      os.attribute(gradeName(Grade(grade)), counts.of(Grade(grade)));
  });
  os.attributeObject("rules", [&] {
    for (unsigned rule = 0; rule < ruleCount; ++rule)
      if (uint64_t count = counts.of(Rule(rule)))
        os.attribute(ruleName(Rule(rule)), count);
  });
}

inline void writeFingerprint(llvm::json::OStream &os, llvm::ArrayRef<FingerprintDifference> differences,
                             uint64_t compared) {
  os.attributeObject("fingerprint", [&] {
    os.attribute("compared", compared);
    os.attributeArray("differences", [&] {
      for (const FingerprintDifference &d : differences)
        os.object([&] {
          os.attribute("register", llvm::json::fixUTF8(d.reg));
          os.attribute("expected", hex(d.expected));
          os.attribute("replayed", hex(d.actual));
          os.attribute("expected_from", d.fromTape ? "tape" : "description");
          os.attribute("packet", d.packet);
        });
    });
  });
}

} // namespace tapeback
