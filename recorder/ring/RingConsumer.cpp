#include "recorder/ring/RingConsumer.h"
#include "recorder/ring/Fence.h"
#include "recorder/ring/Futex.h"
#include "recorder/ring/RingFile.h"
#include <algorithm>

using namespace llvm;

namespace tapeback::ring {

static constexpr unsigned lagMilliseconds = 2;
/// After so long without a record the next one wakes a collector that otherwise looks by itself.
static constexpr unsigned quietMilliseconds = 128;
/// A thread that says for so long that it is about to publish something, and does not, is not waited for: it
/// is stopped, or lies.
static constexpr uint64_t patienceNs = 2'000'000'000;

/// A lane, and what is known of its thread.
struct RingConsumer::Source {
  Source(Lane &lane, const Slot *slots, uint64_t slotCount, unsigned number, uint64_t maxPayload,
         PartsBudget &budget)
      : reader(lane, slots, slotCount, number, maxPayload, budget), lane(lane) {}

  LaneReader reader;
  Lane &lane;
  uint64_t head = 0;         ///< As last looked at.
  uint64_t busySince = 0;    ///< Stamp; 0: it was not, or something has come since.
  uint64_t headOnceBusy = 0; ///< Its position then.
  bool isUsed = false;
};

static std::vector<RingConsumer::LaneView> lanesOf(const RingFile &file) {
  std::vector<RingConsumer::LaneView> views;
  for (unsigned i = 0; i < file.laneCount(); ++i)
    views.push_back({&file.lane(i), file.slots(i), file.slotCount(i)});
  return views;
}

RingConsumer::RingConsumer(Header &header, ArrayRef<LaneView> lanes, const ClockFacts &facts,
                           uint64_t captureLimit)
    : header(header), clock(facts) {
  for (const LaneView &view : lanes)
    sources.push_back(std::make_unique<Source>(*view.lane, view.slots, view.slotCount,
                                               unsigned(sources.size()), maxPayloadBytes(captureLimit),
                                               budget));
}

RingConsumer::RingConsumer(const RingFile &file)
    : RingConsumer(file.header(), lanesOf(file), file.clock(),
                   std::min(file.captureLimit(), maxCaptureLimit)) {}

std::unique_ptr<RingConsumer> RingConsumer::ofLeftBehind(const RingFile &file, bool &torn) {
  auto consumer = std::make_unique<RingConsumer>(file);
  const Header &header = file.header();
  uint32_t which = header.clockNow.load(std::memory_order_acquire) & 1;
  if (header.segments[which].current.multiplier)
    consumer->clock = StampClock(file.clock().source, header.segments[which]);
  torn = false;
  for (auto &source : consumer->sources) {
    uint64_t head = source->lane.head.load(std::memory_order_acquire), tail = source->lane.tail.load(),
             written = source->lane.written.load(std::memory_order_acquire);
    // Behind `tail` the producer may have been at work.
    bool gone = written < tail || written > head;
    torn |= gone;
    source->reader.startAt(gone ? tail : written);
  }
  consumer->freeze();
  return consumer;
}

RingConsumer::~RingConsumer() = default;

void RingConsumer::holdUntilWritten() {
  for (auto &source : sources)
    source->reader.holdUntilWritten();
}

void RingConsumer::markWritten(RingPhase phase) {
  behind = false;
  header.phase.store(phase, std::memory_order_relaxed);
  for (Source *source : used)
    source->reader.markWritten();
  // Behind that: a recovery needs the clock as it was for what is not written, and as it is.
  clock.resync();
  uint32_t next = (header.clockNow.load(std::memory_order_relaxed) & 1) ^ 1;
  header.segments[next] = clock.segments();
  header.clockNow.store(next, std::memory_order_release);
}

/// While one thread only has a lane, all that it stamped until `looked` is older than what any other thread
/// can still publish: that one takes its first stamp behind its claim, and the claim would have been seen.
/// What the lane's thread completes in place afterwards may be later than such a claim, and waits for the
/// next look.
bool RingConsumer::onlyOneLane() {
  if (active.size() > 1)
    return false;
  for (auto &source : sources)
    if ((active.empty() || source.get() != active.front()) &&
        (source->lane.owner.load(std::memory_order_acquire) ||
         source->lane.busy.load(std::memory_order_acquire) ||
         source->lane.head.load(std::memory_order_acquire) != source->reader.at()))
      return false;
  return true;
}

/// Finds out up to when all lanes are seen, and which have not published what they may have stamped by then.
void RingConsumer::lookAtAll() {
  limit = looked;
  fenceProducers();
  active.clear();
  for (auto &source : sources) {
    // It takes some instructions from a stamp to its publication.
    bool busy = true;
    for (unsigned spins = 0; busy && spins < 64; ++spins)
      busy = source->lane.busy.load(std::memory_order_acquire);
    uint64_t head = source->lane.head.load(std::memory_order_acquire);
    if (!busy || head != source->headOnceBusy)
      source->busySince = 0;
    if (busy && !source->busySince) {
      source->busySince = looked;
      source->headOnceBusy = head;
    }
    source->head = head;
    source->reader.publish(head);
    if (head != source->reader.at())
      active.push_back(source.get());
    if (busy && clock.toNs(looked) - clock.toNs(source->busySince) < patienceNs)
      owing.push_back(source.get());
  }
}

/// Looks at what the producers have published. False if there is nothing.
bool RingConsumer::refresh() {
  looked = clock.now();
  active.clear();
  owing.clear();
  for (auto &source : sources) {
    if (!frozen)
      source->head = source->lane.head.load(std::memory_order_acquire);
    source->reader.publish(source->head);
    if (source->head != source->reader.at())
      active.push_back(source.get());
  }
  limit = frozen ? ~uint64_t(0) : looked;
  alone = !frozen && onlyOneLane();
  if (!frozen && !alone)
    lookAtAll();
  for (Source *source : active)
    if (!source->isUsed) {
      source->isUsed = true;
      used.push_back(source);
    }
  return !active.empty();
}

/// The lane whose next thing is the oldest; null if there is none, or none that may be given out yet.
RingConsumer::Source *RingConsumer::choose() {
  if (glued) {
    const LaneReader::Head &head = glued->reader.look();
    if (head.what != LaneReader::Next::Nothing && head.joined)
      return glued;
  }
  Source *best = nullptr;
  uint64_t bestTime = 0;
  auto consider = [&](Source &source, const LaneReader::Head &head) {
    if (best && head.time >= bestTime)
      return;
    best = &source;
    bestTime = head.time;
  };
  for (size_t i = 0; i < active.size();) {
    Source &source = *active[i];
    const LaneReader::Head &head = source.reader.look();
    if (head.what == LaneReader::Next::Nothing) {
      active[i] = active.back();
      active.pop_back();
      continue;
    }
    if (head.what == LaneReader::Next::Corrupt)
      return &source;
    consider(source, head);
    ++i;
  }
  // A lane that owes something and has nothing left may owe the oldest. When it comes, the lane is no longer
  // among the active ones: it had nothing when they were last looked at.
  for (Source *source : owing) {
    const LaneReader::Head &head = source->reader.look();
    if (head.what == LaneReader::Next::Nothing)
      return nullptr;
    if (head.what == LaneReader::Next::Corrupt)
      return source;
    consider(*source, head);
  }
  if (!best || bestTime <= limit)
    return best;
  // A stamp from far in the future is a lie, and nobody's order suffers if its lane is the only one: the
  // program must not wait for ever for the room that it takes.
  return alone && clock.toNs(bestTime) - clock.toNs(looked) >= patienceNs ? best : nullptr;
}

RingConsumer::Status RingConsumer::give(Source &source, Batch &batch) {
  LaneReader &reader = source.reader;
  ++taken;
  if (reader.wantsRelease())
    reader.release();
  behind |= reader.wantsWritten();
  LaneReader::Head head = reader.look();
  if (head.what == LaneReader::Next::Corrupt) {
    reader.takeCorrupt();
    ++corrupt;
    return Status::Corrupt;
  }
  Others others;
  uint64_t until = limit;
  for (Source *other : used) {
    if (other == &source)
      continue;
    others.until = std::max(others.until, other->reader.lastComplete());
    const LaneReader::Head &next = other->reader.look();
    if (next.what == LaneReader::Next::Nothing)
      continue;
    until = std::min(until, next.time);
    if (next.begins)
      others.from = std::min(others.from, next.issue);
  }
  if (head.what == LaneReader::Next::Access) {
    glued = nullptr;
    batch.firstName = nameOf(reader.number(), reader.at());
    batch.accesses = reader.takeAccesses(until, others, clock, batch.concurrent);
    return Status::Accesses;
  }
  glued = &source;
  if (!reader.takeRecord(batch.record, content, clock)) {
    ++corrupt;
    return Status::Corrupt;
  }
  batch.payload = content;
  batch.others.until = others.until ? clock.toNs(others.until) : 0;
  batch.others.from = others.from != ~uint64_t(0) ? clock.toNs(others.from) : others.from;
  return Status::Record;
}

/// Less than is worth being taken alone.
bool RingConsumer::littleHasCome() const {
  static constexpr uint64_t little = 4096;
  return std::all_of(used.begin(), used.end(), [](const Source *source) {
    return source->lane.head.load(std::memory_order_relaxed) - source->reader.at() <
           std::min(little, source->reader.slotsOfLane() / 16);
  });
}

RingConsumer::Status RingConsumer::next(Batch &batch) {
  if (Source *source = choose())
    return give(*source, batch);
  // After Empty it looks whatever has come: somebody has waited, or asks for it.
  if (!lags || frozen || !lookedSinceEmpty || !littleHasCome()) {
    lookedSinceEmpty = true;
    if (refresh())
      if (Source *source = choose())
        return give(*source, batch);
  }
  // What was looked at last was given out, up to then.
  lookedSinceEmpty = false;
  if (owing.empty())
    passed = clock.toNs(looked);
  release();
  return Status::Empty;
}

void RingConsumer::release() {
  for (Source *source : used)
    source->reader.release();
}

/// Slots that could be taken, as far as that can be seen without looking at them.
uint64_t RingConsumer::unread(const Source &source) const {
  uint64_t count = source.lane.head.load(std::memory_order_seq_cst) - source.reader.at();
  if (count && source.reader.waitsInPlace() && source.lane.head.load() == source.head &&
      !source.reader.completedInPlace())
    return 0; // A call that has not come back.
  return count;
}

double RingConsumer::fill() const {
  double most = 0;
  for (auto &source : sources)
    most = std::max(most, double(source->lane.head.load(std::memory_order_relaxed) -
                                 source->lane.tail.load(std::memory_order_relaxed)) /
                              double(source->reader.slotsOfLane()));
  return std::min(1.0, most);
}

/// Whether it is worth looking again in a moment, `lag`, instead of being woken by the next record.
bool RingConsumer::recordsFlow() {
  uint64_t slots = 0, many = ~uint64_t(0);
  for (const Source *source : used) {
    slots += source->reader.at();
    many = std::min(many, source->reader.slotsOfLane() / 64);
  }
  const bool come = taken != takenAtWait;
  lag = slots - slotsAtWait >= many
            ? lagMilliseconds
            : std::clamp(2 * lag, lagMilliseconds, std::max(longestLag, lagMilliseconds));
  silence = come ? 0 : nextSilence;
  takenAtWait = taken;
  slotsAtWait = slots;
  return come || (longestLag && !used.empty() && silence < quietMilliseconds);
}

void RingConsumer::wait(unsigned milliseconds) {
  release();
  if (frozen)
    return;
  // While records come, being woken for each would cost the program a system call a record, and taking each
  // as it comes a line fetched from core to core: lag behind, by a moment and never by more than a part of
  // the ring. When none come any more, the next one wakes us: then the fence, so that none is missed.
  const bool flowing = recordsFlow();
  uint32_t wanted = flowing ? WantsMuch : WantsAny;
  header.dataWanted.store(wanted, std::memory_order_seq_cst);
  if (!flowing)
    fenceProducers();
  bool any = false, much = false;
  for (auto &source : sources)
    if (uint64_t ready = unread(*source)) {
      any = true;
      much |= ready >= source->reader.slotsOfLane() / 4;
    }
  idleWaits = any && !flowing ? idleWaits + 1 : 0;
  bool stuck = idleWaits > 1; // It has to wait for a thread that is held up.
  if (!(flowing ? much : any && !stuck) && !woken.load(std::memory_order_seq_cst))
    futexWait(header.dataWanted, wanted,
              stuck     ? std::min(milliseconds, lagMilliseconds)
              : flowing ? std::min(milliseconds, lag)
                        : milliseconds);
  nextSilence = std::min(silence + lag, quietMilliseconds);
  header.dataWanted.store(0, std::memory_order_relaxed);
  woken.store(false, std::memory_order_relaxed);
}

void RingConsumer::wake() {
  woken.store(true, std::memory_order_seq_cst);
  header.dataWanted.store(0, std::memory_order_seq_cst);
  futexWakeAll(header.dataWanted);
}

void RingConsumer::freeze() {
  for (auto &source : sources)
    source->head = source->lane.head.load(std::memory_order_acquire);
  frozen = true;
}

} // namespace tapeback::ring
