#include "recorder/Perturbation.h"
#include "format/Failure.h"
#include "recorder/Program.h"
#include "recorder/ring/GapTable.h"
#include "recorder/ring/RingFile.h"
#include "recorder/ring/RingProducer.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <mutex>
#include <new>
#include <random>
#include <sys/mman.h>
#include <unistd.h>

using namespace llvm;

namespace tapeback {

namespace {

/// The program's counts of one run, in a file in a directory that only we may enter.
class GapFile {
public:
  static Expected<std::unique_ptr<GapFile>> create() {
    std::unique_ptr<GapFile> made(new GapFile);
    SmallString<128> directory;
    if (std::error_code code = sys::fs::createUniqueDirectory("tapeback-gaps", directory))
      return failSystem("cannot-create", "cannot make a directory for the gaps: " + code.message(), "", "");
    made->directory = directory.str().str();
    made->path = made->directory + "/gaps";
    int fd = ::open(made->path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ::ftruncate(fd, sizeof(ring::GapTable)) != 0) {
      int error = errno;
      if (fd >= 0)
        ::close(fd);
      return failSystem("cannot-create",
                        "cannot make the table of gaps: " + std::generic_category().message(error),
                        made->path, "");
    }
    void *mapping = ::mmap(nullptr, sizeof(ring::GapTable), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int error = errno;
    ::close(fd);
    if (mapping == MAP_FAILED)
      return failSystem("cannot-create",
                        "cannot map the table of gaps: " + std::generic_category().message(error), made->path,
                        "");
    made->table = new (mapping) ring::GapTable;
    std::copy_n(ring::gapMagic, sizeof(ring::gapMagic), made->table->magic);
    return made;
  }
  ~GapFile() {
    if (table)
      ::munmap(table, sizeof(ring::GapTable));
    if (!path.empty())
      ::unlink(path.c_str());
    if (!directory.empty())
      ::rmdir(directory.c_str());
  }
  GapFile(const GapFile &) = delete;
  GapFile &operator=(const GapFile &) = delete;

  std::string variable() const { return std::string(ring::gapEnvironmentName) + "=" + path; }
  std::vector<uint64_t> counts() const {
    std::vector<uint64_t> all;
    for (const std::atomic<uint64_t> &count : table->counts)
      all.push_back(count.load(std::memory_order_relaxed));
    return all;
  }

private:
  GapFile() = default;
  std::string directory, path;
  ring::GapTable *table = nullptr;
};

/// The middle of `values`, and where it lies in 95 of 100 draws of as many.
Estimate medianOf(std::vector<double> values) {
  auto middle = [](std::vector<double> some) {
    size_t half = some.size() / 2;
    std::sort(some.begin(), some.end());
    return some.size() % 2 ? some[half] : (some[half - 1] + some[half]) / 2;
  };
  constexpr unsigned draws = 2000;
  std::mt19937_64 random(1);
  std::vector<double> medians(draws), drawn(values.size());
  for (double &median : medians) {
    for (double &value : drawn)
      value = values[random() % values.size()];
    median = middle(drawn);
  }
  std::sort(medians.begin(), medians.end());
  return {middle(values), medians[size_t(draws * 0.025)], medians[size_t(draws * 0.975)]};
}

/// Wilson's interval of a rate.
Estimate rateOf(size_t hits, size_t count) {
  constexpr double z = 1.959964;
  double n = double(count), p = double(hits) / n, d = 1 + z * z / n;
  double centre = (p + z * z / (2 * n)) / d;
  double half = z * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / d;
  return {p, std::max(0.0, centre - half), std::min(1.0, centre + half)};
}

PerturbationRun runOf(std::optional<int> exit, std::optional<int> signal, uint64_t ns,
                      ArrayRef<uint64_t> counts) {
  PerturbationRun run;
  run.failed = exit.value_or(0) != 0 || signal.value_or(0) != 0;
  run.seconds = double(ns) / 1e9;
  for (uint64_t count : counts)
    run.gaps += count;
  run.p50 = gapPercentile(counts, 0.5);
  run.p99 = gapPercentile(counts, 0.99);
  return run;
}

Error interrupted(std::optional<int> signal) {
  if (signal == SIGINT || signal == SIGTERM)
    return failSystem("interrupted", "the comparison was interrupted", "--ab", "");
  return Error::success();
}

Expected<PerturbationRun> runOff(const RecordOptions &options, const std::vector<std::string> &targets) {
  Expected<std::unique_ptr<GapFile>> gaps = GapFile::create();
  if (!gaps)
    return gaps.takeError();
  std::vector<std::string> environment = targets;
  environment.push_back((*gaps)->variable());
  std::mutex lock;
  std::condition_variable ends;
  bool ended = false;
  uint64_t start = ring::Producer::now();
  Expected<std::unique_ptr<Program>> program =
      Program::start(options.command, environment, ProgramOutput::Discard, [&] {
        std::lock_guard<std::mutex> held(lock);
        ended = true;
        ends.notify_one();
      });
  if (!program)
    return program.takeError();
  {
    std::unique_lock<std::mutex> held(lock);
    ends.wait(held, [&] { return ended; });
  }
  uint64_t ns = ring::Producer::now() - start;
  ProgramEnd end = (*program)->end();
  if (Error error = interrupted(end.signal))
    return error;
  return runOf(end.exit, end.signal, ns, (*gaps)->counts());
}

Expected<PerturbationRun> runOn(RecordOptions options, RecordResult &last) {
  Expected<std::unique_ptr<GapFile>> gaps = GapFile::create();
  if (!gaps)
    return gaps.takeError();
  options.environment.push_back((*gaps)->variable());
  Expected<RecordResult> result = recordProgram(options);
  if (!result)
    return result.takeError();
  if (Error error = interrupted(result->outcome.programSignal))
    return error;
  last = std::move(*result);
  return runOf(last.outcome.programExit, last.outcome.programSignal, last.programNs, (*gaps)->counts());
}

} // namespace

std::optional<double> gapPercentile(ArrayRef<uint64_t> counts, double share) {
  double all = 0;
  for (uint64_t count : counts)
    all += double(count);
  if (all == 0)
    return std::nullopt;
  double wanted = all * share, before = 0;
  for (unsigned bucket = 0; bucket < counts.size(); ++bucket) {
    double here = double(counts[bucket]);
    if (here && before + here >= wanted) {
      double least = double(ring::GapTable::leastOf(bucket));
      double next =
          bucket + 1 < ring::GapTable::buckets ? double(ring::GapTable::leastOf(bucket + 1)) : least;
      return least + (next - least) * std::max(0.0, wanted - before) / here;
    }
    before += here;
  }
  return std::nullopt;
}

void estimate(Perturbation &result) {
  const size_t count = result.pairs.size();
  std::vector<double> time, p50Ratio, p99Ratio, p50Shift, p99Shift;
  size_t offFailed = 0, onFailed = 0;
  for (const PerturbationPair &pair : result.pairs) {
    time.push_back(pair.on.seconds / std::max(pair.off.seconds, 1e-9));
    offFailed += pair.off.failed;
    onFailed += pair.on.failed;
    if (pair.off.p50 && pair.on.p50) {
      p50Ratio.push_back(*pair.on.p50 / std::max(*pair.off.p50, 1.0));
      p50Shift.push_back(*pair.on.p50 - *pair.off.p50);
      p99Ratio.push_back(*pair.on.p99 / std::max(*pair.off.p99, 1.0));
      p99Shift.push_back(*pair.on.p99 - *pair.off.p99);
    }
  }
  if (!count)
    return;
  result.timeRatio = medianOf(time);
  result.offFailures = rateOf(offFailed, count);
  result.onFailures = rateOf(onFailed, count);
  if (p50Ratio.size() != count)
    return;
  result.p50Ratio = medianOf(p50Ratio);
  result.p99Ratio = medianOf(p99Ratio);
  result.p50Shift = medianOf(p50Shift);
  result.p99Shift = medianOf(p99Shift);
}

Expected<Perturbation> measurePerturbation(const RecordOptions &given, unsigned pairs, RecordResult &last) {
  if (pairs < 3 || pairs > 1000)
    return failUsage("bad-option", "a comparison needs 3 to 1000 pairs of runs", "--ab", "");
  RecordOptions options = given;
  Perturbation result;
  // Recording is first: whatever is wrong with the options shows before anything runs. It also warms up, and
  // what the program says in it is what it says in every run.
  options.programOutput = ProgramOutput::ToErrors;
  if (Expected<PerturbationRun> warm = runOn(options, last); !warm)
    return warm.takeError();
  options.force = true; // What is there now is ours.
  options.programOutput = ProgramOutput::Discard;
  std::vector<std::string> targets = targetVariables(options.targets);
  for (unsigned number = 0; number < pairs; ++number) {
    PerturbationPair pair;
    for (bool on : {number % 2 == 1, number % 2 == 0}) {
      Expected<PerturbationRun> run = on ? runOn(options, last) : runOff(options, targets);
      if (!run)
        return run.takeError();
      (on ? pair.on : pair.off) = *run;
    }
    result.pairs.push_back(pair);
  }
  estimate(result);
  return result;
}

} // namespace tapeback
