#include "hal/description/Words.h"

namespace tapeback {
namespace words {

static constexpr Word<RegisterClass> classTable[] = {
    {"stable", RegisterClass::Stable},
    {"volatile", RegisterClass::Volatile},
    {"progress", RegisterClass::Progress},
    {"poll", RegisterClass::Poll},
    {"status", RegisterClass::Status},
    {"w1c", RegisterClass::W1C},
    {"read-to-clear", RegisterClass::ReadToClear},
    {"fifo", RegisterClass::Fifo},
    {"counter", RegisterClass::Counter},
    {"timestamp", RegisterClass::Timestamp},
    {"identity", RegisterClass::Identity},
    {"address-low", RegisterClass::AddressLow},
    {"address-high", RegisterClass::AddressHigh},
};
static constexpr Word<RegisterAccess> accessTable[] = {
    {"rw", RegisterAccess::ReadWrite},
    {"ro", RegisterAccess::ReadOnly},
    {"wo", RegisterAccess::WriteOnly},
};
static constexpr Word<ReplayPolicy> policyTable[] = {
    {"compare", ReplayPolicy::Compare},
    {"ignore", ReplayPolicy::Ignore},
    {"mask", ReplayPolicy::Mask},
    {"poll-until", ReplayPolicy::PollUntil},
    {"substitute", ReplayPolicy::Substitute},
    {"relocate", ReplayPolicy::Relocate},
    {"side-effect", ReplayPolicy::SideEffect},
    {"may-hang", ReplayPolicy::MayHang},
    {"forbidden", ReplayPolicy::Forbidden},
};
static constexpr Word<bool> directionTable[] = {{"to-device", true}, {"from-device", false}};

llvm::ArrayRef<Word<RegisterClass>> classes() {
  return classTable;
}
llvm::ArrayRef<Word<RegisterAccess>> accesses() {
  return accessTable;
}
llvm::ArrayRef<Word<ReplayPolicy>> policies() {
  return policyTable;
}
llvm::ArrayRef<Word<bool>> directions() {
  return directionTable;
}

ReplayPolicy defaultPolicy(RegisterClass c) {
  switch (c) {
  case RegisterClass::Volatile:
  case RegisterClass::Progress:
  case RegisterClass::Counter:
  case RegisterClass::Timestamp: return ReplayPolicy::Ignore; // Two runs of one device differ here already.
  case RegisterClass::Poll: return ReplayPolicy::PollUntil;
  case RegisterClass::AddressLow:
  case RegisterClass::AddressHigh: return ReplayPolicy::Relocate;
  default: return ReplayPolicy::Compare;
  }
}

std::string suggestion(llvm::StringRef word, llvm::ArrayRef<llvm::StringRef> names) {
  llvm::StringRef nearest;
  unsigned best = 1 + unsigned(std::min<size_t>(word.size(), 64)) / 3; // Farther than this is another word.
  for (llvm::StringRef name : names) {
    if (word.size() > 64)
      break;
    unsigned distance = name.equals_insensitive(word) ? 0 : word.edit_distance(name, true, best);
    if (distance < best || (distance == best && nearest.empty())) {
      best = distance;
      nearest = name;
    }
  }
  return nearest.empty() ? std::string() : ("; did you mean '" + nearest + "'?").str();
}

} // namespace words

template <typename T>
static const char *wordOf(llvm::ArrayRef<words::Word<T>> table, T value) {
  for (const words::Word<T> &word : table)
    if (word.value == value)
      return word.text.data();
  return "unknown";
}
const char *registerClassName(RegisterClass c) {
  return wordOf(words::classes(), c);
}
const char *replayPolicyName(ReplayPolicy p) {
  return wordOf(words::policies(), p);
}

} // namespace tapeback
