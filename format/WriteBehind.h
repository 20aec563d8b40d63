// The last step of a block: hash, chain, file. For large ones while the next one is made. Internal to
// format/.
#pragma once

#include "format/File.h"
#include "format/Layout.h"
#include "format/WordBuffer.h"
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace tapeback {

struct Failure;

/// A block that is complete but for its trailer.
struct UnsealedBlock {
  BlockHeader header;
  WordBuffer body;            ///< Its first header.storedSize bytes.
  std::optional<Digest> hash; ///< Computed where there was time for it.
  llvm::ArrayRef<uint8_t> stored() { return body.bytes(header.storedSize); }
};

/// Owns the file and the chain. At most one block is on its way; the thread that takes it there is started
/// with the first. Used by one thread. Errors of what was on its way come with the next call. Destroyed, it
/// waits.
class WriteBehind {
public:
  explicit WriteBehind(OutputFile file) : file(std::move(file)) {}
  ~WriteBehind();
  WriteBehind(const WriteBehind &) = delete;

  llvm::Error start(const FileHeader &header);
  /// Waits for the block before this, and writes this one.
  llvm::Error write(const BlockHeader &header, llvm::ArrayRef<uint8_t> stored);
  /// Waits for the block before this, and sends this one on its way: then `block` has another body's memory.
  llvm::Error send(UnsealedBlock &block);
  /// Waits until nothing is on its way.
  llvm::Error wait();

  // After start(), write() or wait() only.
  const Digest &chain() const { return chainValue; }
  OutputFile &output() { return file; }

private:
  enum class State { Idle, Work, End };
  llvm::Error seal(const BlockHeader &header, llvm::ArrayRef<uint8_t> stored, const Digest &hash);
  llvm::Error sealJob();
  bool startThread();
  void run();

  // The thread's while there is work.
  OutputFile file;
  Digest chainValue{};
  UnsealedBlock job;
  std::unique_ptr<Failure> fault; ///< Of the last job.

  std::mutex lock;
  std::condition_variable changed;
  State state = State::Idle; ///< Guarded by lock.
  std::thread thread;
};

} // namespace tapeback
