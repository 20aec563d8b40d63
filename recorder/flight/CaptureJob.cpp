#include "recorder/flight/CaptureJob.h"
#include "format/Failure.h"
#include "recorder/flight/QuietThread.h"

using namespace llvm;

namespace tapeback {

Expected<std::unique_ptr<CaptureThread>> CaptureThread::start(CaptureSink sink) {
  std::unique_ptr<CaptureThread> made(new CaptureThread(std::move(sink)));
  Expected<std::thread> worker = threadOrFailure(
      "writes captures", [raw = made.get()] { return startQuietThread([raw] { raw->run(); }); });
  if (!worker)
    return worker.takeError();
  made->worker = std::move(*worker);
  return made;
}

CaptureThread::~CaptureThread() {
  if (!worker.joinable())
    return;
  {
    std::lock_guard guard(lock);
    quit = true;
  }
  changed.notify_all();
  worker.join();
}

void CaptureThread::add(CaptureJob job) {
  std::unique_lock guard(lock);
  changed.wait(guard, [this] { return jobs.size() < most; });
  jobs.push_back(std::move(job));
  changed.notify_all();
}

std::vector<CaptureThread::Done> CaptureThread::takeDone() {
  std::lock_guard guard(lock);
  return std::move(done);
}

void CaptureThread::finish() {
  std::unique_lock guard(lock);
  changed.wait(guard, [this] { return jobs.empty() && !busy; });
}

void CaptureThread::run() {
  std::unique_lock guard(lock);
  for (;;) {
    changed.wait(guard, [this] { return quit || !jobs.empty(); });
    if (jobs.empty())
      return;
    CaptureJob job = std::move(jobs.front());
    jobs.pop_front();
    busy = true;
    changed.notify_all();
    guard.unlock();
    Done one;
    one.event = job.event;
    Expected<WrittenCapture> written = sink(job);
    if (written)
      one.written = std::move(*written);
    else
      one.failure = toFailure(written.takeError()).message;
    job.snapshot.reset();
    guard.lock();
    done.push_back(std::move(one));
    busy = false;
    changed.notify_all();
  }
}

} // namespace tapeback
