// tapeback targets: which kinds of target there are, and which of them can be driven from here.
#include "hal/Target.h"
#include "tools/CommandLine.h"
#include "tools/Report.h"
#include "tools/Verb.h"

using namespace llvm;

namespace tapeback {

int runTargets(ArrayRef<const char *> args) {
  CommandLine line({"targets", "Say which kinds of target there are and which can be driven from here",
                    "[--json]", "", "  tapeback targets\n"});
  if (std::optional<int> exit = line.parse(args))
    return *exit;
  Report report("targets", line.json());
  if (report.json()) {
    json::OStream &os = report.object();
    os.attributeArray("schemes", [&] {
      for (const TargetScheme &scheme : targetSchemes())
        os.object([&] {
          os.attribute("scheme", scheme.scheme);
          os.attribute("syntax", scheme.syntax);
          os.attribute("summary", scheme.summary);
        });
    });
  } else {
    for (const TargetScheme &scheme : targetSchemes())
      outs() << scheme.syntax << "\n    " << scheme.summary << "\n";
  }
  return report.finish(0);
}

} // namespace tapeback
