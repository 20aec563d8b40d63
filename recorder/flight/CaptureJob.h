// A capture that is complete and waits to be written, and the thread that does it.
#pragma once

#include "format/TapeReader.h"
#include "triggers/Capture.h"
#include "llvm/Support/Error.h"
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace tapeback {

struct CaptureJob {
  std::unique_ptr<TapeReader> snapshot;
  uint64_t first = 0, last = 0, point = 0; ///< Of the snapshot.
  bool hasKept = false;
  std::vector<bool> kept; ///< If so: which packets from `first` on are wanted.
  std::string name;       ///< For its file: "TRIGGER-3"; empty: the recording's own name.
  std::string text, derivation;
  std::string shortness; ///< Behind the text in the mark: what it has less than was asked.
  size_t event = 0;      ///< In the list of what the triggers did.
};

struct WrittenCapture {
  std::string path;
  uint64_t packets = 0, prefix = 0;
  bool restorable = true;
  std::string how; ///< How the state at its start is established, or why it cannot be.
};
/// Makes a tape of a capture. Called on a thread of its own, one capture at a time.
/// May take the snapshot out.
using CaptureSink = std::function<llvm::Expected<WrittenCapture>(CaptureJob &)>;

/// Writes captures one after the other, in the order in which they were given.
class CaptureThread {
public:
  struct Done {
    size_t event = 0;
    std::optional<WrittenCapture> written;
    std::string failure; ///< If not.
  };
  /// A System failure if there is no thread to be had.
  static llvm::Expected<std::unique_ptr<CaptureThread>> start(CaptureSink sink);
  /// Writes what is left.
  ~CaptureThread();
  CaptureThread(const CaptureThread &) = delete;
  CaptureThread &operator=(const CaptureThread &) = delete;

  /// Waits while `most` captures are waiting: their snapshots hold memory.
  void add(CaptureJob job);
  /// What has been written since it was asked last.
  std::vector<Done> takeDone();
  /// Waits until everything is written.
  void finish();

private:
  static constexpr size_t most = 4;
  explicit CaptureThread(CaptureSink sink) : sink(std::move(sink)) {}
  void run();

  CaptureSink sink;
  std::mutex lock;
  std::condition_variable changed;
  std::deque<CaptureJob> jobs;
  std::vector<Done> done;
  bool busy = false, quit = false;
  std::thread worker;
};

} // namespace tapeback
