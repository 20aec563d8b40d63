#include "hal/qemu/QemuMedium.h"
#include "format/Failure.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace tapeback {
namespace {

/// SplitMix64: any word of the medium can be had without those before it.
uint64_t mixed(uint64_t seed, uint64_t index) {
  uint64_t z = seed * 0xd1342543de82ef95 + (index + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

} // namespace

llvm::Expected<FileDescriptor> makeMedium(const MediumOptions &options) {
  auto failed = [](const char *what) {
    return failSystem("out-of-memory", std::string("medium: ") + what + ": " + std::strerror(errno));
  };
  FileDescriptor file(::memfd_create("tapeback-medium", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file)
    return failed("memfd_create");
  if (::ftruncate(file.get(), off_t(options.bytes)) != 0)
    return failed("ftruncate");
  std::vector<uint8_t> piece;
  constexpr uint64_t pieceBytes = 64 << 10; // All sizes are whole numbers of words.
  for (uint64_t at = 0; options.pattern != MediumOptions::Pattern::Zero && at < options.bytes;
       at += piece.size()) {
    piece.resize(size_t(std::min(pieceBytes, options.bytes - at)));
    for (size_t i = 0; i + 8 <= piece.size(); i += 8) {
      uint64_t index = (at + i) / 8;
      uint64_t word = options.pattern == MediumOptions::Pattern::Index ? index : mixed(options.seed, index);
      for (unsigned byte = 0; byte < 8; ++byte)
        piece[i + byte] = uint8_t(word >> (8 * byte));
    }
    if (::pwrite(file.get(), piece.data(), piece.size(), off_t(at)) != ssize_t(piece.size()))
      return failed("write");
  }
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return failed("sealing");
  return file;
}

} // namespace tapeback
