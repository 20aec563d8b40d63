// The lab's configuration: commands that a replay may have to run around it because no target can do what
// they do.
//
//   tapeback-lab: 1
//   hooks:
//     - name: power-cycle
//       run: [/usr/local/bin/rack, cycle, port-7]
//       timeout-seconds: 30
//     - name: load-bitstream
//       run: [/usr/local/bin/program-fpga, /lab/minnow.bit]
//   before-run: [load-bitstream, power-cycle]
//   after-failure: [power-cycle]
//   forbidden:
//     - {name: flash, space: bar0, first: 0x10000, last: 0x1ffff}
//
// README.md in this folder says when which runs. Nothing here runs anything.
#pragma once

#include "hal/description/Description.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>
#include <vector>

namespace tapeback {

struct Hook {
  std::string name;             ///< One of hookNames(), or "x-" and something of the lab's own.
  std::vector<std::string> run; ///< An absolute path and its arguments. No shell.
  uint64_t timeoutSeconds = 60; ///< 1 to 3600.
  std::string text() const;     ///< "name: /path argument …", for people.
};

struct LabFile {
  std::vector<ForbiddenRange>
      forbidden; ///< Of register spaces, or of "memory" that is mapped for the device.
  std::vector<Hook> hooks;
  std::vector<const Hook *> beforeRun;    ///< Before the targets of each run are opened.
  std::vector<const Hook *> afterFailure; ///< After a run in which the target failed.
};

/// "power-cycle", "pci-rescan", "load-firmware", "load-bitstream".
llvm::ArrayRef<const char *> hookNames();

/// Errors are Usage failures with file, line and column. The result's pointers lead into itself: it is not to
/// be copied.
llvm::Expected<std::unique_ptr<LabFile>> parseLabFile(llvm::StringRef yaml, llvm::StringRef name);
llvm::Expected<std::unique_ptr<LabFile>> readLabFile(llvm::StringRef path);

} // namespace tapeback
