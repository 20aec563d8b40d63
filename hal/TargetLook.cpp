#include "hal/TargetLook.h"
#include "hal/Target.h"

namespace tapeback {

LookableTarget *lookableTarget(Target &target) {
  auto *lookable = dynamic_cast<LookableTarget *>(&target);
  return lookable && lookable->canLook() ? lookable : nullptr;
}

} // namespace tapeback
