// The readings that ride along on a model host's replies (HostProtocol.h), as far as they still hold.
#pragma once

#include "hal/model/HostProtocol.h"
#include "llvm/ADT/ArrayRef.h"
#include <optional>
#include <vector>

namespace tapeback {

/// A model's clock and counters change only inside calls that let something happen, so what came back with
/// the last such call is what asking would give. Not thread-safe.
class ModelReadings {
public:
  /// What came with the reply to `command`. False if it is not what was asked for.
  bool take(llvm::ArrayRef<uint64_t> values, modelhost::Command command);

  /// The host was asked for these (up to maxReadings; more do not ride along), or for its clock.
  void follow(llvm::ArrayRef<uint32_t> ids);
  void followTime();

  /// Nothing if the host has to be asked.
  std::optional<uint64_t> time() const;
  std::optional<llvm::ArrayRef<uint64_t>> counters(llvm::ArrayRef<uint32_t> ids) const;

private:
  bool followsTime = false;
  std::vector<uint32_t> followed;
  std::vector<uint64_t>
      held; ///< The time, if followed when these came, and counters; empty: nothing that holds.
};

} // namespace tapeback
