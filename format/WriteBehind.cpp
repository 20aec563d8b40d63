// One thread, one block, one lock.
#include "format/WriteBehind.h"

#include "format/Failure.h"
#include <csignal>
#include <pthread.h>
#include <system_error>

namespace tapeback {

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

llvm::Error WriteBehind::sealJob() {
  return seal(job.header, job.stored(), job.hash ? *job.hash : hashBlock(job.header, job.stored()));
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
    if (llvm::Error error = sealJob())
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

llvm::Error WriteBehind::send(UnsealedBlock &block) {
  if (llvm::Error error = wait())
    return error;
  std::swap(job, block);
  if (!startThread())
    return sealJob();
  {
    const std::lock_guard<std::mutex> guard(lock);
    state = State::Work;
  }
  changed.notify_all();
  return llvm::Error::success();
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
