#include "recorder/flight/LiveTriggers.h"
#include "format/Failure.h"
#include "triggers/OutputText.h"

using namespace llvm;

namespace tapeback {

using triggers::ActionOp;
using triggers::CaptureAmount;
using triggers::CaptureHistory;
using triggers::noIndex;
using triggers::noPacket;
using triggers::Output;

static constexpr size_t maxEvents = 10'000, maxPending = 64;
static constexpr uint64_t maxMarks = 100'000;
static constexpr size_t maxEarlyMarks = 1000;
static constexpr unsigned maxOwnMarkers = 8;

/// Which packets a trigger with a `keep` wants, from the oldest that the history may still have.
struct KeptBits {
  uint64_t first = 0;
  std::vector<bool> bits;

  bool at(uint64_t packet) const {
    return packet < first || packet - first >= bits.size() || bits[packet - first];
  }
  void add(uint64_t ordinal, bool kept, uint64_t oldest) {
    if (bits.empty())
      first = ordinal;
    bits.push_back(kept);
    // Now and then, so that it costs a constant each.
    if (oldest > first && oldest - first > bits.size() / 2) {
      bits.erase(bits.begin(), bits.begin() + ptrdiff_t(std::min<uint64_t>(oldest - first, bits.size())));
      first = oldest;
    }
  }
};

struct LiveTriggers::FileState {
  FileState(const triggers::Program &program, std::string name, const triggers::StreamNames &names)
      : program(program), name(std::move(name)), evaluator(program, names) {}
  const triggers::Program &program;
  std::string name;
  triggers::Evaluator evaluator;
  SmallVector<Output, 8> outputs;
  std::map<uint32_t, std::string> said; ///< By trigger: a capture is marked with what was said last.
  std::map<uint32_t, KeptBits> kept;    ///< Of triggers with a `keep`.
};

/// The history as one trigger keeps it.
class LiveTriggers::KeptHistory : public CaptureHistory {
public:
  KeptHistory(FlightHistory &history, const KeptBits *kept) : history(history), kept(kept) {}
  uint64_t first() const override { return history.first(); }
  uint64_t end() const override { return history.end(); }
  Expected<Facts> facts(uint64_t packet) override {
    Expected<Facts> facts = history.facts(packet);
    if (facts && kept)
      facts->kept = kept->at(packet);
    return facts;
  }
  Expected<Window> windowOf(uint64_t packet) override { return history.windowOf(packet); }

private:
  FlightHistory &history;
  const KeptBits *kept;
};

LiveTriggers::LiveTriggers(LiveTriggerOptions newOptions) : options(std::move(newOptions)) {
  names.spaces = {"memory"};
  names.clockTicksPerSecond = {1'000'000'000};
  for (const LiveTriggerOptions::File &file : options.files) {
    auto state = std::make_unique<FileState>(*file.program, file.name, names);
    for (uint32_t t = 0; t < file.program->triggers.size(); ++t)
      if (file.program->triggers[t].keep != noIndex) {
        state->kept[t];
        keepers = true;
      }
    files.push_back(std::move(state));
  }
}

LiveTriggers::~LiveTriggers() = default;

void LiveTriggers::deviceOpened(uint16_t device, uint16_t index) {
  if (indexOf.size() <= device)
    indexOf.resize(size_t(device) + 1, 0xffff);
  indexOf[device] = index;
  sameDevices &= device == index;
  ++generation;
  mergedByKey.clear();
  merged.clear();
}

void LiveTriggers::spaceAdded(uint16_t id, StringRef name) {
  if (names.spaces.size() <= id)
    names.spaces.resize(size_t(id) + 1);
  names.spaces[id] = name.str();
  for (const std::unique_ptr<FileState> &file : files)
    file->evaluator.setNames(names);
  ++generation;
  mergedByKey.clear();
  merged.clear();
}

void LiveTriggers::clockAdded(uint8_t id, uint64_t ticksPerSecond) {
  if (names.clockTicksPerSecond.size() <= id)
    names.clockTicksPerSecond.resize(size_t(id) + 1);
  names.clockTicksPerSecond[id] = ticksPerSecond;
  for (const std::unique_ptr<FileState> &file : files)
    file->evaluator.setNames(names);
  ++generation;
  mergedByKey.clear();
  merged.clear();
}

const triggers::KeyFilter *LiveTriggers::filterOf(const Packet &packet) {
  Packet own = packet;
  if (!sameDevices && packet.device < indexOf.size())
    own.device = indexOf[packet.device];
  std::array<uint64_t, 3> key{own.address, uint64_t(own.device) << 32 | uint64_t(own.space) << 16 | own.width,
                              uint64_t(own.kind)};
  auto found = mergedByKey.find(key);
  if (found != mergedByKey.end())
    return found->second;
  auto filter = std::make_unique<triggers::KeyFilter>();
  for (const std::unique_ptr<FileState> &file : files)
    filter->merge(file->evaluator.filterOf(own));
  // Conditions are shown everything: there are few, and who wants speed does not use them.
  if (!options.conditions.empty())
    filter->merge(triggers::KeyFilter::everything());
  const triggers::KeyFilter *result = filter->never() ? nullptr : filter.get();
  constexpr size_t maxKeys = 65536;
  if (mergedByKey.size() >= maxKeys) {
    // Who has asked for so many keys gets no more lists: everything of a new key is shown.
    static const triggers::KeyFilter all = triggers::KeyFilter::everything();
    return &all;
  }
  if (result)
    merged.push_back(std::move(filter));
  mergedByKey[key] = result;
  return result;
}

//===- Packets ---------------------------------------------------------------------------------------===//

void LiveTriggers::packet(uint64_t ordinal, const Packet &packet, const PacketExtra &extra,
                          ArrayRef<uint8_t> payload) {
  if (!early.empty())
    markEarly();
  lastOrdinal = ordinal;
  lastTime = packet.issueTime;
  if (packet.origin == Origin::Program)
    ownMarkers = 0;
  if (!asked.empty() && packet.kind == PacketKind::CounterSnapshot && packet.origin == Origin::Recorder)
    snapshotSeen(ordinal, packet.issueTime);
  Packet own = packet;
  if (!sameDevices && packet.device < indexOf.size())
    own.device = indexOf[packet.device];
  auto fetch = [&](BlobId id) { return id == extra.payload ? payload : ArrayRef<uint8_t>(); };
  for (const std::unique_ptr<FileState> &file : files) {
    file->evaluator.packet(ordinal, own, extra, fetch, file->outputs);
    for (auto &[trigger, bits] : file->kept)
      bits.add(ordinal, file->evaluator.keeps(trigger), options.history ? options.history->first() : ordinal);
  }
  if (!pending.empty())
    advanceAll(ordinal, packet, extra);
  for (const std::unique_ptr<FileState> &file : files)
    if (!file->outputs.empty())
      handle(*file, ordinal);
  for (LiveTriggerOptions::Condition &one : options.conditions) {
    StringRef name = packet.kind == PacketKind::Marker
                         ? StringRef(reinterpret_cast<const char *>(payload.data()), payload.size())
                         : StringRef();
    StringRef space = own.space < names.spaces.size() ? StringRef(names.spaces[own.space]) : StringRef();
    if (!one.condition.matches(own, space, name))
      continue;
    ++firings;
    TriggerEvent event;
    event.trigger = one.name;
    event.op = ActionOp::Capture;
    event.packet = ordinal;
    event.time = packet.issueTime;
    event.text = one.condition.text();
    mark(ordinal, one.name + ": " + one.condition.text());
    begin(one.name, one.condition.text(), ordinal, packet.issueTime, one.pre, one.post, note(event), nullptr,
          noIndex);
  }
  if (options.history && options.history->overfull() && !pending.empty())
    complete(0, "the history's memory was used up");
}

void LiveTriggers::passed(uint64_t firstOrdinal, ArrayRef<Packet> packets) {
  if (packets.empty())
    return;
  static const PacketExtra none;
  if (!early.empty())
    markEarly();
  ownMarkers = 0;
  for (const std::unique_ptr<FileState> &file : files) {
    triggers::Evaluator &evaluator = file->evaluator;
    uint64_t ordinal = firstOrdinal;
    for (const Packet &packet : packets)
      evaluator.packetPassed(ordinal++, packet.issueTime, packet.completeTime, file->outputs);
  }
  if (!pending.empty()) {
    uint64_t ordinal = firstOrdinal;
    for (const Packet &packet : packets)
      advanceAll(ordinal++, packet, none);
  }
  lastOrdinal = firstOrdinal + packets.size() - 1;
  lastTime = packets.back().issueTime;
  for (const std::unique_ptr<FileState> &file : files)
    if (!file->outputs.empty())
      handle(*file, lastOrdinal);
  if (options.history && options.history->overfull() && !pending.empty())
    complete(0, "the history's memory was used up");
}

void LiveTriggers::tick(uint64_t now) {
  for (const std::unique_ptr<FileState> &file : files) {
    file->evaluator.tick(now, file->outputs);
    if (!file->outputs.empty())
      handle(*file, lastOrdinal);
  }
}

void LiveTriggers::raised(StringRef event, const std::string &from, uint64_t delayNs) {
  if (over)
    return;
  for (const std::unique_ptr<FileState> &file : files) {
    if (!is_contained(file->program.events, event))
      continue;
    TriggerEvent seen;
    seen.trigger = file->name;
    seen.op = ActionOp::Raise;
    if (options.marks && options.marks->packetCount())
      seen.packet = lastOrdinal;
    seen.time = lastTime;
    seen.delayNs = delayNs;
    seen.text =
        ("event " + event + " raised by " + from + ", " + Twine(delayNs) + " ns before it was seen here")
            .str();
    note(seen);
    mark(lastOrdinal, seen.text);
    file->evaluator.raise(event, file->outputs);
    handle(*file, lastOrdinal);
  }
}

void LiveTriggers::ended() {
  if (over)
    return;
  for (const std::unique_ptr<FileState> &file : files) {
    file->evaluator.finish(file->outputs);
    handle(*file, lastOrdinal);
  }
  over = true;
  for (const auto &[event, since] : asked)
    if (event < log.size() && options.snapshotTaken && options.snapshotTaken())
      log[event].notDone = "the program was told at a call, but its device has no counters to read";
  while (!pending.empty())
    complete(pending.size() - 1, nullptr);
}

//===- What they want --------------------------------------------------------------------------------===//

void LiveTriggers::handle(FileState &file, uint64_t) {
  SmallVector<Output, 8> outputs;
  std::swap(outputs, file.outputs);
  for (const Output &output : outputs)
    handle(file, output);
}

/// Where the event is in the list; its end if there is no more room.
size_t LiveTriggers::note(const TriggerEvent &event) {
  if (log.size() < maxEvents) {
    log.push_back(event);
    return log.size() - 1;
  }
  ++notLogged;
  return log.size();
}

void LiveTriggers::mark(uint64_t packet, const std::string &text) {
  if (!options.marks)
    return;
  if (marks >= maxMarks) {
    ++notMarked;
    return;
  }
  // Events of other processes come before the first packet, too: they are marked there.
  if (!options.marks->packetCount() && early.size() < maxEarlyMarks)
    early.push_back(text);
  if (packet >= options.marks->packetCount())
    return;
  ++marks;
  if (Error error = options.marks->trigger(packet, text))
    trouble(std::move(error));
}

void LiveTriggers::markEarly() {
  for (const std::string &text : std::exchange(early, {}))
    mark(0, text);
}

/// Captures are evidence: what went wrong with one is told, the recording goes on.
void LiveTriggers::trouble(Error error) {
  std::string text = toFailure(std::move(error)).message;
  if (failure.empty())
    failure = std::move(text);
}

void LiveTriggers::handle(FileState &file, const Output &output) {
  const triggers::Program &program = file.program;
  const triggers::Trigger &trigger = program.triggers[output.trigger];
  const triggers::Action &action = program.actions[output.action];
  TriggerEvent event;
  event.trigger = (files.size() > 1 ? file.name + "." : std::string()) + trigger.name;
  event.op = output.op;
  if (output.packet != noPacket)
    event.packet = output.packet;
  event.time = output.time;
  event.text = triggers::firedText(program, output);
  uint64_t point = output.packet == noPacket ? 0 : output.packet;
  if (over && output.op != ActionOp::Fire)
    event.notDone = "the recording had ended";
  switch (output.op) {
  case ActionOp::Fire:
    ++firings;
    file.said[output.trigger] = event.text;
    mark(point, event.trigger + ": " + event.text);
    break;
  case ActionOp::Capture: {
    ++firings;
    size_t index = note(event);
    uint32_t keeper = trigger.keep == noIndex ? noIndex : output.trigger;
    begin(event.trigger, file.said[output.trigger], point, output.time, action.pre, action.post, index, &file,
          keeper);
    return;
  }
  case ActionOp::Marker:
    if (ownMarkers >= maxOwnMarkers)
      event.notDone = "it is a marker that markers of this trigger file bring about";
    else if (event.notDone.empty()) {
      ++ownMarkers;
      wishes.markers.push_back(program.texts[action.a]);
    }
    break;
  case ActionOp::Stop:
    if (event.notDone.empty()) {
      wishes.stop = true;
      wishes.stopText = event.trigger + ": stop";
    }
    break;
  case ActionOp::Snapshot:
    if (event.notDone.empty()) {
      event.notDone = "the program has made no call since";
      size_t index = note(event);
      if (options.snapshot && asked.size() < maxEvents)
        asked.emplace_back(index, options.snapshot());
      return;
    }
    break;
  case ActionOp::Exec:
    if (!event.notDone.empty())
      break;
    if (!options.allowExec || !options.exec)
      event.notDone = "--allow-exec was not given";
    else if (!options.exec(program.texts[action.a]))
      event.notDone = "it could not be started";
    break;
  case ActionOp::Raise:
    if (options.raise)
      options.raise(program.events[action.a]);
    return; // Inside the evaluator it has been raised already.
  default: return;
  }
  note(event);
}

const ObserverWishes *LiveTriggers::takeWishes() {
  if (!wishes.any())
    return nullptr;
  taken = std::move(wishes);
  wishes = ObserverWishes();
  return &taken;
}

/// Counters were read since they were asked for: at the first call that the program made.
void LiveTriggers::snapshotSeen(uint64_t ordinal, uint64_t time) {
  size_t left = 0;
  for (const auto &[event, since] : asked) {
    if (time < since) {
      asked[left++] = {event, since};
      continue;
    }
    if (event < log.size()) {
      log[event].notDone.clear();
      log[event].delayNs = time - since;
      mark(ordinal,
           log[event].trigger + ": snapshot, " + std::to_string(time - since) + " ns after it was asked for");
    }
  }
  asked.resize(left);
}

unsigned LiveTriggers::armed() const {
  unsigned count = unsigned(options.conditions.size());
  for (const std::unique_ptr<FileState> &file : files)
    for (uint32_t t = 0; t < file->program.triggers.size(); ++t)
      count += file->evaluator.armed(t);
  return count;
}

triggers::Evaluator::Shortfalls LiveTriggers::shortfalls() const {
  triggers::Evaluator::Shortfalls sum;
  for (const std::unique_ptr<FileState> &file : files) {
    triggers::Evaluator::Shortfalls one = file->evaluator.shortfalls();
    sum.deadlines += one.deadlines;
    sum.raises += one.raises;
    sum.evictions += one.evictions;
    sum.contents += one.contents;
  }
  return sum;
}

//===- Captures --------------------------------------------------------------------------------------===//

void LiveTriggers::begin(const std::string &trigger, const std::string &text, uint64_t point, uint64_t time,
                         CaptureAmount pre, CaptureAmount post, size_t event, FileState *file,
                         uint32_t keeper) {
  auto refuse = [&](std::string why) {
    if (event < log.size())
      log[event].notDone = std::move(why);
  };
  if (!options.history || !options.capture)
    return refuse("no history is kept");
  if (!options.history->packetCount())
    return refuse("nothing was recorded");
  // What there is to capture and is not captured is a loss, unlike what there never was.
  auto leaveOut = [&](std::string why) {
    if (!notTaken++)
      notTakenWhy = why;
    refuse(std::move(why));
  };
  if (pending.size() >= maxPending)
    return leaveOut(std::to_string(maxPending) + " captures wait for their end already");
  if (point < options.history->first())
    return leaveOut("its trigger point is no longer in the history");
  const KeptBits *bits = keeper == noIndex ? nullptr : &file->kept[keeper];
  KeptHistory history(*options.history, bits);
  Expected<triggers::PreExtent> before = triggers::resolvePre(history, point, time, pre);
  if (!before)
    return trouble(before.takeError());
  std::string name = trigger + "-" + std::to_string(++numbers[trigger]);
  Pending one{trigger,
              text,
              std::move(name),
              point,
              pre,
              post,
              *before,
              triggers::PostWalk(point, time, post),
              point + 1,
              event,
              file,
              keeper};
  pending.push_back(std::move(one));
  holdHistory();
  // Of `after` rules the point lies before the packet at hand.
  advance(pending.back(), options.history->end() - 1, nullptr);
  if (pending.back().walk.complete())
    complete(pending.size() - 1, nullptr);
}

/// Shows what is behind the point up to `ordinal`, whose facts are given if it is not to be looked up.
void LiveTriggers::advance(Pending &one, uint64_t ordinal, const CaptureHistory::Facts *known) {
  const KeptBits *bits = one.keeper == noIndex ? nullptr : &one.file->kept[one.keeper];
  for (; one.next <= ordinal && !one.walk.complete(); ++one.next) {
    CaptureHistory::Facts facts;
    if (known && one.next == ordinal) {
      facts = *known;
    } else {
      Expected<CaptureHistory::Facts> looked = options.history->facts(one.next);
      if (!looked)
        return trouble(looked.takeError());
      facts = *looked;
    }
    facts.kept = !bits || bits->at(one.next);
    one.walk.next(one.next, facts, options.history->startsWindow(one.next));
  }
}

void LiveTriggers::advanceAll(uint64_t ordinal, const Packet &packet, const PacketExtra &extra) {
  CaptureHistory::Facts facts = FlightHistory::factsOf(packet, extra);
  for (size_t i = 0; i < pending.size();) {
    advance(pending[i], ordinal, &facts);
    if (pending[i].walk.complete())
      complete(i, nullptr);
    else
      ++i;
  }
}

void LiveTriggers::holdHistory() {
  uint64_t oldest = ~uint64_t(0);
  for (const Pending &one : pending)
    oldest = std::min(oldest, one.before.first);
  if (options.history)
    options.history->hold(oldest);
}

void LiveTriggers::complete(size_t index, const char *whyShort) {
  Pending one = std::move(pending[index]);
  pending.erase(pending.begin() + ptrdiff_t(index));
  triggers::CaptureExtent extent;
  extent.first = one.before.first;
  extent.last = one.walk.last();
  extent.pre = one.before.count;
  extent.preShort = one.before.isShort;
  extent.post = one.walk.count();
  extent.postShort = whyShort || one.walk.shortAtEnd();
  FlightHistory &history = *options.history;
  CaptureJob job;
  job.event = one.event;
  job.name = one.name;
  job.text = one.trigger + ": " + one.text;
  job.shortness = triggers::shortText(extent, one.pre, one.post);
  job.derivation = "capture of packets " + std::to_string(extent.first) + " to " +
                   std::to_string(extent.last) + " of a recording, at " + job.text + " (" +
                   triggers::extentText(extent, one.pre, one.post) +
                   (whyShort ? std::string("; ") + whyShort : std::string()) + ")";
  Expected<std::unique_ptr<TapeReader>> snapshot = history.snapshot(extent.last + 1, Outcome());
  holdHistory();
  if (one.event < log.size())
    log[one.event].extent = extent;
  if (!snapshot) {
    std::string why = toFailure(snapshot.takeError()).message;
    if (one.event < log.size())
      log[one.event].notDone = why;
    return trouble(failSystem("no-capture", why));
  }
  job.snapshot = std::move(*snapshot);
  job.first = history.snapshotOrdinal(extent.first);
  job.last = history.snapshotOrdinal(extent.last);
  job.point = history.snapshotOrdinal(one.point);
  if (one.keeper != noIndex) {
    job.hasKept = true;
    for (uint64_t at = extent.first; at <= extent.last; ++at)
      job.kept.push_back(one.file->kept[one.keeper].at(at));
  }
  options.capture(std::move(job));
}

} // namespace tapeback
