// One thread, one lot of blocks, one lock.
#include "format/WriteBehind.h"

#include "format/Failure.h"
#include <csignal>
#include <cstring>
#include <pthread.h>
#include <system_error>

namespace tapeback {

llvm::MutableArrayRef<uint8_t> PackedBlocks::room(size_t most) {
  const size_t begin = used + sizeof(BlockHeader);
  return memory.keep(begin + most + sizeof(BlockTrailer), used).slice(begin, most);
}

void PackedBlocks::add(const BlockHeader &header) {
  parts.push_back({used, header});
  std::memcpy(memory.bytes(used + sizeof(header)).data() + used, &header, sizeof(header));
  used += static_cast<size_t>(blockBytes(header));
}

void PackedBlocks::clear() {
  parts.clear();
  used = 0;
}

void PackedBlocks::seal(Digest &chain) {
  uint8_t *const bytes = memory.bytes(used).data();
  for (const Part &part : parts) {
    uint8_t *const stored = bytes + part.at + sizeof(BlockHeader);
    BlockTrailer trailer;
    trailer.hash = hashBlock(part.header, {stored, part.header.storedSize});
    trailer.chain = chain = chainStep(chain, trailer.hash);
    std::memcpy(stored + part.header.storedSize, &trailer, sizeof(trailer));
  }
}

void UnsealedBlocks::clear() {
  packed.clear();
  withLarge = false;
  hash.reset();
}

WriteBehind::~WriteBehind() {
  if (!thread.joinable())
    return;
  {
    std::unique_lock<std::mutex> guard(lock);
    changed.wait(guard, [&] { return state == State::Idle; });
    state = State::End;
  }
  changed.notify_all();
  thread.join();
}

llvm::Error WriteBehind::start(const FileHeader &header) {
  chainValue = chainStart(header);
  return file.write(bytesOf(header));
}

llvm::Error WriteBehind::seal(const BlockHeader &header, llvm::ArrayRef<uint8_t> stored, const Digest &hash) {
  BlockTrailer trailer;
  trailer.hash = hash;
  trailer.chain = chainStep(chainValue, hash);
  for (const llvm::ArrayRef<uint8_t> part : {bytesOf(header), stored, bytesOf(trailer)})
    if (llvm::Error error = file.write(part))
      return error;
  chainValue = trailer.chain;
  return llvm::Error::success();
}

llvm::Error WriteBehind::sealAll(UnsealedBlocks &blocks) {
  if (!blocks.packed.empty()) {
    Digest chain = chainValue;
    blocks.packed.seal(chain);
    if (llvm::Error error = file.write(blocks.packed.all()))
      return error;
    chainValue = chain;
  }
  if (!blocks.withLarge)
    return llvm::Error::success();
  return seal(blocks.header, blocks.stored(),
              blocks.hash ? *blocks.hash : hashBlock(blocks.header, blocks.stored()));
}

llvm::Error WriteBehind::write(const BlockHeader &header, llvm::ArrayRef<uint8_t> stored) {
  const Digest hash = hashBlock(header, stored);
  if (llvm::Error error = wait())
    return error;
  return seal(header, stored, hash);
}

void WriteBehind::run() {
  std::unique_lock<std::mutex> guard(lock);
  for (;;) {
    changed.wait(guard, [&] { return state != State::Idle; });
    if (state == State::End)
      return;
    guard.unlock();
    if (llvm::Error error = sealAll(job))
      fault = std::make_unique<Failure>(toFailure(std::move(error)));
    guard.lock();
    state = State::Idle;
    changed.notify_all();
  }
}

// Signals are for the threads of the program, not for this one.
bool WriteBehind::startThread() {
  if (thread.joinable())
    return true;
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread = std::thread([this] { run(); });
  } catch (const std::system_error &) {
    // No thread to be had: then without one.
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return false;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread.joinable();
}

llvm::Error WriteBehind::send(UnsealedBlocks &blocks) {
  if (llvm::Error error = wait())
    return error;
  std::swap(job, blocks);
  blocks.clear();
  if (!startThread())
    return sealAll(job);
  {
    const std::lock_guard<std::mutex> guard(lock);
    state = State::Work;
  }
  changed.notify_all();
  return llvm::Error::success();
}

llvm::Error WriteBehind::put(UnsealedBlocks &blocks) {
  if (llvm::Error error = wait())
    return error;
  llvm::Error error = sealAll(blocks);
  blocks.clear();
  return error;
}

llvm::Error WriteBehind::wait() {
  if (thread.joinable()) {
    std::unique_lock<std::mutex> guard(lock);
    changed.wait(guard, [&] { return state == State::Idle; });
  }
  if (!fault)
    return llvm::Error::success();
  Failure failure = std::move(*fault);
  fault.reset();
  return llvm::make_error<Failure>(std::move(failure));
}

} // namespace tapeback
