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
#include <vector>

namespace tapeback {

class Failure;

/// Blocks one behind the other, as they will lie in the file, complete but for their trailers.
class PackedBlocks {
public:
  bool empty() const { return parts.empty(); }
  size_t bytes() const { return used; }
  /// Room for the next one's stored bytes, `most` at most. Nothing was added until add().
  llvm::MutableArrayRef<uint8_t> room(size_t most);
  /// The first header.storedSize bytes of that room are the block's.
  void add(const BlockHeader &header);
  void clear();
  /// Fills in the trailers, and carries `chain` on. Then all() is what belongs in the file.
  void seal(Digest &chain);
  llvm::ArrayRef<uint8_t> all() { return memory.bytes(used); }

private:
  struct Part {
    size_t at;
    BlockHeader header;
  };
  WordBuffer memory;
  std::vector<Part> parts;
  size_t used = 0;
};

/// What is to be put into the file at once: some small blocks, and behind them perhaps a large one.
struct UnsealedBlocks {
  PackedBlocks packed;
  bool withLarge = false;
  BlockHeader header;         ///< The large one's, as is all that follows.
  WordBuffer body;            ///< Its first header.storedSize bytes.
  std::optional<Digest> hash; ///< Computed where there was time for it.
  llvm::ArrayRef<uint8_t> stored() { return body.bytes(header.storedSize); }
  bool empty() const { return packed.empty() && !withLarge; }
  void clear();
};

/// Owns the file and the chain. What was sent last is on its way, and nothing else; the thread that takes it
/// there is started with the first. Used by one thread. Errors of what was on its way come with the next
/// call. Destroyed, it waits.
class WriteBehind {
public:
  explicit WriteBehind(OutputFile file) : file(std::move(file)) {}
  ~WriteBehind();
  WriteBehind(const WriteBehind &) = delete;

  llvm::Error start(const FileHeader &header);
  /// Waits for what is on its way, and writes this block.
  llvm::Error write(const BlockHeader &header, llvm::ArrayRef<uint8_t> stored);
  /// Waits for what is on its way, and sends these on theirs: then `blocks` is empty, with other memory.
  llvm::Error send(UnsealedBlocks &blocks);
  /// The same, but they are in the file when it returns.
  llvm::Error put(UnsealedBlocks &blocks);
  /// Waits until nothing is on its way.
  llvm::Error wait();

  // After start(), write() or wait() only.
  const Digest &chain() const { return chainValue; }
  OutputFile &output() { return file; }

private:
  enum class State { Idle, Work, End };
  llvm::Error seal(const BlockHeader &header, llvm::ArrayRef<uint8_t> stored, const Digest &hash);
  llvm::Error sealAll(UnsealedBlocks &blocks);
  bool startThread();
  void run();

  // The thread's while there is work.
  OutputFile file;
  Digest chainValue{};
  UnsealedBlocks job;
  std::unique_ptr<Failure> fault; ///< Of the last job.

  std::mutex lock;
  std::condition_variable changed;
  State state = State::Idle; ///< Guarded by lock.
  std::thread thread;
};

} // namespace tapeback
