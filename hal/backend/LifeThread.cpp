#include "hal/backend/LifeThread.h"
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <memory>
#include <mutex>
#include <pthread.h>

namespace tapeback {

namespace {
struct Job {
  llvm::function_ref<void()> work;
  bool done = false;
};

/// Never destroyed: the thread outlives main() and static destruction.
struct LifeThread {
  std::mutex mutex;
  std::condition_variable wanted, finished;
  std::deque<Job *> jobs;
  bool running = false;

  static void *run(void *self) {
    static_cast<LifeThread *>(self)->serve();
    return nullptr;
  }

  void serve() {
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      wanted.wait(lock, [this] { return !jobs.empty(); });
      Job *job = jobs.front();
      jobs.pop_front();
      lock.unlock();
      job->work();
      lock.lock();
      job->done = true;
      finished.notify_all();
    }
  }

  bool start() {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    int code = pthread_create(&thread, nullptr, run, this);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (code != 0) {
      errno = code;
      return false;
    }
    pthread_detach(thread);
    return true;
  }

  bool submit(llvm::function_ref<void()> work) {
    Job job{work};
    std::unique_lock<std::mutex> lock(mutex);
    if (!running && !start())
      return false;
    running = true;
    jobs.push_back(&job);
    wanted.notify_one();
    finished.wait(lock, [&job] { return job.done; });
    return true;
  }
};
} // namespace

bool onLifeThread(llvm::function_ref<void()> work) {
  static LifeThread *const thread = new LifeThread;
  return thread->submit(work);
}

} // namespace tapeback
