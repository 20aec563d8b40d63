// Linux NVMe trace events (ftrace text): commands and completions by name, without memory.
//
//   TASK-PID [CPU] FLAGS SEC.USEC: nvme_setup_cmd: nvmeC: [disk=D, ]qid=Q, cmdid=I, nsid=N, flags=F, meta=M,
//   cmd=(NAME …) …: nvme_complete_rq: nvmeC: [disk=D, ]qid=Q, cmdid=I, res=R, retries=N, flags=F, status=S …:
//   nvme_sq: nvmeC: [disk=D, ]qid=Q, head=H, tail=T
//
// A command is a span with its text and, inside it, a Submit (pending, entry not captured); its completion is
// a LateCompletion (value: status in the low 16 bits, result above) and the span's end. Heads and tails are
// counter snapshots: counter 2 Q is the head of queue Q, 2 Q + 1 its tail.
#include "recorder/import/Importers.h"
#include "llvm/ADT/DenseMap.h"

using namespace llvm;

namespace tapeback {
namespace {

constexpr size_t maxCommands = 1u << 18, maxQueues = 1u << 16;

class NvmeTrace : public Importer {
public:
  LineVerdict line(const CaptureLine &line, ImportOutput &out) override {
    if (isBlank(line.text))
      return LineVerdict::ignored("blank line");
    if (line.text.starts_with("#"))
      return LineVerdict::ignored("comment");
    Scanner s(line.text);
    uint64_t number, time;
    if (s.eat("CPU:") && s.decimal(number)) {
      if (s.eat(" [LOST ") && s.decimal(number) && s.eat(" EVENTS]")) {
        start(out);
        out.loss(LossCause::Source, number);
        return LineVerdict::lost();
      }
      return LineVerdict::notUnderstood(s, "[LOST N EVENTS] is wanted");
    }
    if (!findEvent(line.text, s, time))
      return LineVerdict::notUnderstood(1, "TASK-PID [CPU] FLAGS TIME: is wanted");
    bool setup = s.eat("nvme_setup_cmd: "), complete = !setup && s.eat("nvme_complete_rq: ");
    bool queue = !setup && !complete && s.eat("nvme_sq: ");
    if (!setup && !complete && !queue) {
      StringRef name = s.rest().take_until([](char c) { return c == ':'; });
      return name.size() < s.rest().size() ? LineVerdict::ignored("other trace events")
                                           : LineVerdict::notUnderstood(s, "the event's name is wanted");
    }
    StringRef alias;
    uint64_t qid;
    if (!s.until(':', alias) || alias.empty() || alias.size() > 32 || !s.eat(": "))
      return LineVerdict::notUnderstood(s, "the controller (nvmeC:) is wanted");
    if (s.eat("disk=")) {
      StringRef disk;
      if (!s.until(',', disk) || !s.eat(", "))
        return LineVerdict::notUnderstood(s, "the disk is wanted");
    }
    if (!s.eat("qid=") || !s.decimal(qid) || qid > 0xffff || !s.eat(", "))
      return LineVerdict::notUnderstood(s, "qid= is wanted");
    start(out);
    out.at(time);
    if (!lastDevice || alias != lastAlias) {
      lastDevice = out.device(alias);
      lastAlias = alias.str();
    }
    const std::optional<uint16_t> device = lastDevice;
    if (!device)
      return LineVerdict::notUnderstood(s, "too many devices");
    if (setup)
      return command(s, out, *device, qid);
    return complete ? completion(s, out, *device, qid) : heads(s, out, *device, qid);
  }

private:
  struct Outstanding {
    uint64_t submit, span;
  };
  static uint64_t keyOf(uint64_t device, uint64_t qid, uint64_t cmdid) {
    return device << 32 | qid << 16 | cmdid;
  }

  void start(ImportOutput &out) {
    if (!started)
      out.clock("kernel-trace");
    started = true;
  }

  /// Behind "[CPU] FLAGS TIME: ". The task's name in front may hold anything, brackets too.
  static bool findEvent(StringRef line, Scanner &s, uint64_t &time) {
    uint64_t cpu;
    for (size_t at = line.find('['); at != StringRef::npos; at = line.find('[', at + 1)) {
      if (at == 0 || line[at - 1] != ' ')
        continue;
      Scanner t(line, at + 1);
      if (!t.decimal(cpu) || !t.eat(']') || !t.blanks())
        continue;
      Scanner flags = t;
      if (!t.seconds(time) || !t.eat(": ")) {
        t = flags;
        t.word(); // Interrupt and preemption flags, which some kernels print.
        if (!t.blanks() || !t.seconds(time) || !t.eat(": "))
          continue;
      }
      s = t;
      return true;
    }
    return false;
  }

  template <size_t size>
  static bool field(Scanner &s, const char (&name)[size], uint64_t &value) {
    return s.eat(name) && s.cNumber(value);
  }

  /// Appends a number in decimal to the name.
  void number(StringRef key, uint64_t value) {
    name.append(key.data(), key.size());
    char digits[20], *at = std::end(digits);
    do
      *--at = char('0' + value % 10);
    while (value /= 10);
    name.append(at, std::end(digits));
  }

  LineVerdict command(Scanner &s, ImportOutput &out, uint16_t device, uint64_t qid) {
    uint64_t cmdid, nsid, flags, meta;
    if (!field(s, "cmdid=", cmdid) || cmdid > 0xffff || !field(s, ", nsid=", nsid) ||
        !field(s, ", flags=", flags) || !field(s, ", meta=", meta))
      return LineVerdict::notUnderstood(s, "cmdid=, nsid=, flags=, meta= are wanted");
    s.eat(','); // Older kernels print none.
    s.blanks();
    if (!s.eat("cmd=(") || !trimmedRight(s.rest()).ends_with(")"))
      return LineVerdict::notUnderstood(s, "cmd=(…) is wanted (is the line cut?)");
    StringRef text = trimmedRight(s.rest()).drop_back().take_front(1024);
    Packet span;
    span.kind = PacketKind::SpanBegin;
    span.device = device;
    Outstanding entry;
    name.clear();
    number("qid=", qid);
    number(" cmdid=", cmdid);
    number(" nsid=", nsid);
    name.append(1, ' ').append(text.data(), text.size());
    entry.span = out.append(span, {}, StringRef(name));
    Packet submit;
    submit.kind = PacketKind::Submit;
    submit.completion = Completion::Pending;
    submit.flags = NotCaptured;
    submit.device = device;
    submit.value = qid;
    PacketExtra extra;
    extra.length = 64;
    uint64_t queue = uint64_t(device) << 16 | qid;
    auto known = submitted.find(queue);
    if (known == submitted.end() && submitted.size() < maxQueues)
      known = submitted.try_emplace(queue, 0).first;
    if (known != submitted.end())
      extra.count = known->second++;
    entry.submit = out.append(submit, extra);
    uint64_t key = keyOf(device, qid, cmdid);
    if (outstanding.size() >= maxCommands && !outstanding.count(key))
      outstanding.clear(); // Completions that nobody traced.
    auto [place, isNew] = outstanding.try_emplace(key, entry);
    if (!isNew) {
      out.warn("id-reused", "the command identifier is in use: its completion was not seen");
      place->second = entry;
    }
    return LineVerdict::imported();
  }

  LineVerdict completion(Scanner &s, ImportOutput &out, uint16_t device, uint64_t qid) {
    uint64_t cmdid, result, retries, flags, status;
    if (!field(s, "cmdid=", cmdid) || cmdid > 0xffff || !field(s, ", res=", result) ||
        !field(s, ", retries=", retries) || !field(s, ", flags=", flags) || !field(s, ", status=", status) ||
        status > 0xffff)
      return LineVerdict::notUnderstood(s, "cmdid=, res=, retries=, flags=, status= are wanted");
    s.blanks();
    if (!s.atEnd())
      return LineVerdict::notUnderstood(s, "there is something behind the end of the completion");
    Packet packet;
    packet.kind = PacketKind::LateCompletion;
    packet.device = device;
    packet.value = result << 16 | status;
    PacketExtra extra;
    auto known = outstanding.find(keyOf(device, qid, cmdid));
    if (known != outstanding.end())
      extra.link = known->second.submit;
    out.append(packet, extra);
    if (known != outstanding.end()) {
      packet = {};
      packet.kind = PacketKind::SpanEnd;
      packet.device = device;
      extra.link = known->second.span;
      out.append(packet, extra);
      outstanding.erase(known);
    }
    return LineVerdict::imported();
  }

  LineVerdict heads(Scanner &s, ImportOutput &out, uint16_t device, uint64_t qid) {
    uint64_t head, tail;
    if (!field(s, "head=", head) || !field(s, ", tail=", tail))
      return LineVerdict::notUnderstood(s, "head=, tail= are wanted");
    Packet packet;
    packet.kind = PacketKind::CounterSnapshot;
    packet.device = device;
    packet.address = 2 * qid;
    packet.value = head;
    out.append(packet);
    packet.address += 1;
    packet.value = tail;
    out.append(packet);
    return LineVerdict::imported();
  }

  bool started = false;
  std::string lastAlias;
  std::optional<uint16_t> lastDevice;     ///< Of that alias.
  std::string name;                       ///< Of a span; used again.
  std::map<uint64_t, uint64_t> submitted; ///< By device and queue.
  DenseMap<uint64_t, Outstanding> outstanding;
};

unsigned recogniseNvmeTrace(StringRef head) {
  return shareOfLines(
      head,
      [](StringRef line) {
        return line.contains(": nvme_setup_cmd: ") || line.contains(": nvme_complete_rq: ") ||
               line.contains(": nvme_sq: ");
      },
      [](StringRef line) { return line.starts_with("#"); });
}

} // namespace

const ImporterKind nvmeTraceKind = {"nvme-trace",
                                    "Linux NVMe trace events",
                                    "register accesses, queue entries, memory contents, interrupts",
                                    true,
                                    recogniseNvmeTrace,
                                    [](const ImporterSettings &) -> Expected<std::unique_ptr<Importer>> {
                                      return std::make_unique<NvmeTrace>();
                                    }};

} // namespace tapeback
