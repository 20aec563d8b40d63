// What recording costs, as ratios within one run: the table of docs/performance.md.
//
//   recorder-bench [--calls N] [--seconds S] [--only calls|streams|payloads]
//
// Prints one JSON object; SpeedTable.py makes the table of it and of the other benchmarks. Logs of real
// devices are streamed, too, where TAPEBACK_CORPUS names a folder that has them. Calls are measured in a
// program of their own (recorder-calls), alone and under `tapeback record`; streams and payloads in this
// process, with the product's own ring, collector and writer. A part that fails ends it with exit code 1: a
// figure of something that does not work means nothing.
#include "format/Failure.h"
#include "format/TapeReader.h"
#include "format/TapeWriter.h"
#include "recorder/CaptureCompiler.h"
#include "recorder/Collector.h"
#include "recorder/ring/RingConsumer.h"
#include "recorder/ring/RingFile.h"
#include "recorder/ring/RingProducer.h"
#include "tests/bench/Clock.h"
#include "tests/bench/CorpusTraffic.h"
#include "tests/support/RunProgram.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <lz4.h>
#include <random>
#include <sstream>
#include <sys/resource.h>
#include <thread>

using namespace tapeback;
using namespace tapeback::bench;
using namespace tapeback::test;
namespace json = llvm::json;

namespace {

[[noreturn]] void giveUp(const llvm::Twine &what) {
  llvm::errs() << "recorder-bench: " << what << "\n";
  std::exit(1);
}
void require(llvm::Error error) {
  if (!error)
    return;
  const Failure failure = toFailure(std::move(error));
  giveUp(failure.code + ": " + failure.message + " [" + failure.where + "]");
}
template <typename T>
T require(llvm::Expected<T> value) {
  if (!value)
    require(value.takeError());
  return std::move(*value);
}

struct Options {
  uint64_t calls = 200'000;
  double seconds = 3;
  std::string only;
  bool wants(const char *part) const { return only.empty() || only == part; }
};

double rounded(double value) {
  return std::round(value * 1000) / 1000;
}

// Calls.

/// `more`: of record's options.
json::Object callsIn(const ScratchDirectory &scratch, const Options &options, bool recorded,
                     const std::vector<std::string> &more = {}) {
  std::string out = scratch.file("calls.json");
  std::vector<std::string> command;
  if (recorded) {
    command = {tapebackProgram(),          "record", "--json", "--target", "null:", "-o",
               scratch.file("calls.tape"), "--force"};
    command.insert(command.end(), more.begin(), more.end());
    command.push_back("--");
  }
  command.insert(command.end(),
                 {TAPEBACK_BINARY_DIR "/bin/bench/recorder-calls", out, std::to_string(options.calls)});
  RunOptions run;
  run.timeout = std::chrono::minutes(5);
  if (!recorded)
    run.environment["TAPEBACK_TARGET"] = "null:";
  RunResult result = runProgram(command, run);
  if (!result.exited(0))
    giveUp(result.command + " failed:\n" + result.err + result.out);
  std::stringstream text;
  text << std::ifstream(out).rdbuf();
  json::Value value = require(json::parse(text.str()));
  json::Object *object = value.getAsObject();
  if (!object || object->getBoolean("recording") != recorded)
    giveUp("recorder-calls was not recorded as it should be");
  return std::move(*object);
}

/// What 100 armed triggers that do not fire cost the recorded program: nothing, if they are evaluated
/// elsewhere. The median of rounds in which both were run.
json::Object armedCalls(const ScratchDirectory &scratch, const Options &options) {
  constexpr unsigned count = 100, registers = 16, armedRounds = 5;
  std::string file = scratch.file("armed.trig"), description = scratch.file("null.yaml");
  {
    std::ofstream text(description);
    text << "tapeback-description: 1\nname: bench\nspaces: [bar0]\nregisters:\n";
    for (unsigned i = 0; i < registers; ++i)
      text << "  - {name: R" << i << ", offset: " << i * 4 << "}\n";
  }
  {
    std::ofstream text(file);
    // Of the registers that the program writes, with values that it does not.
    for (unsigned i = 0; i < count; ++i)
      text << "trigger t" << i << " { when write R" << i % registers << " && value == " << 0x70000000 + i
           << " { fire \"x\"; } }\n";
  }
  const std::vector<std::string> described = {"--description", description},
                                 withTriggers = {"--description", description, "--trigger", file};
  std::vector<double> sustained, burst;
  for (unsigned round = 0; round < armedRounds; ++round) {
    json::Object on = callsIn(scratch, options, true, described),
                 armed = callsIn(scratch, options, true, withTriggers);
    auto ratio = [&](const char *key) {
      return armed.getNumber(key).value_or(0) / on.getNumber(key).value_or(1);
    };
    sustained.push_back(ratio("sustained_ns"));
    burst.push_back(ratio("burst_ns"));
  }
  std::nth_element(sustained.begin(), sustained.begin() + armedRounds / 2, sustained.end());
  std::nth_element(burst.begin(), burst.begin() + armedRounds / 2, burst.end());
  json::Object result;
  result["triggers"] = count;
  result["sustained_to_on"] = rounded(sustained[armedRounds / 2]);
  result["burst_to_on"] = rounded(burst[armedRounds / 2]);
  return result;
}

/// A packet is stamped twice: when it is issued, and when it comes back.
json::Object hotPath(const ScratchDirectory &scratch, const Options &options) {
  json::Object off = callsIn(scratch, options, false), on = callsIn(scratch, options, true);
  auto number = [](const json::Object &object, const char *key) { return object.getNumber(key).value_or(0); };
  double stamps = 2 * number(on, "counter_ns");
  json::Object result;
  result["sustained_to_stamps"] = rounded((number(on, "sustained_ns") - number(on, "target_ns")) / stamps);
  result["burst_to_stamps"] = rounded((number(on, "burst_ns") - number(on, "target_ns")) / stamps);
  result["off_call_ns"] = rounded(number(off, "extra_ns"));
  result["off_call_to_counter"] = rounded(number(off, "extra_ns") / number(off, "counter_ns"));
  result["p999_to_median"] = rounded(number(on, "p999_ns") / number(on, "p50_ns"));
  result["off"] = std::move(off);
  result["on"] = std::move(on);
  result["armed"] = armedCalls(scratch, options);
  return result;
}

// Streams.

enum class Traffic { Registers, Ring };

/// The access at place `i`: a driver's loop over a dozen registers, or entries of a ring in the device with
/// their doorbell.
ring::Access accessOf(Traffic traffic, uint64_t i, std::mt19937_64 &random) {
  const uint64_t bits = random(), entry = i / 5, word = i % 5, step = i % 12;
  if (traffic == Traffic::Ring) {
    const uint64_t value = word == 0   ? 0x40 + (bits >> 16 & 3)
                           : word == 1 ? 0x10000000 + (bits >> 40 & 0xffff) * 4096
                           : word == 2 ? (bits >> 18 & 15) * 64
                           : word == 3 ? entry
                                       : entry % 1024;
    return ring::Access::make(PacketKind::RegisterWrite,
                              word == 4 ? 0x1000 : 0x100000 + entry % 1024 * 32 + word * 8, value, 0, 1, 0,
                              word == 4 ? 4 : 8, Origin::Program);
  }
  const uint64_t value = step == 0   ? i / 12
                         : step == 3 ? bits >> 20 & 15
                         : step == 5 ? bits >> 24 & 1
                                     : 0x80 + step;
  return ring::Access::make(step % 3 == 0 ? PacketKind::RegisterWrite : PacketKind::RegisterRead,
                            0x1000 + 4 * step, value, 0, 1, 0, 4, Origin::Program);
}

/// Of the calling thread. Unlike time that passes it says something on a machine that is busy with other
/// things.
uint64_t processorNs() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return uint64_t(time.tv_sec) * 1'000'000'000 + uint64_t(time.tv_nsec);
}

/// How often the calling thread gave up its core by itself.
uint64_t ownWaits() {
  rusage usage = {};
  getrusage(RUSAGE_THREAD, &usage);
  return uint64_t(usage.ru_nvcsw);
}

/// Accesses that are made over and over, made before so that what is measured is the ring and what is behind
/// it.
struct Workload {
  std::string name;
  std::vector<ring::Access> accesses;
  uint64_t step = 0; ///< Added to all values from one time to the next.
};

Workload madeWorkload(const char *name, Traffic traffic) {
  constexpr uint64_t period = 12 * 5 * 1024;
  std::mt19937_64 random(1);
  Workload workload = {name, {}, 1};
  for (uint64_t i = 0; i < period; ++i)
    workload.accesses.push_back(accessOf(traffic, i, random));
  return workload;
}

Workload corpusWorkload(const CorpusLog &log) {
  Workload workload = {log.name, {}, 0};
  for (const Packet &packet : mutatedTraffic(log, 300'000))
    workload.accesses.push_back(ring::Access::make(packet.kind, packet.address, packet.value, 0, 1, 0,
                                                   packet.width, Origin::Program));
  return workload;
}

/// What the producer's thread did.
struct Produced {
  uint64_t packets = 0;
  uint64_t elapsedNs = 0, usedNs = 0; ///< Time that passed, and that of the processor.
  uint64_t waits = 0;                 ///< How often it gave up its core by itself: for space in the ring.
  double counterNs = 0;               ///< Reading the counter, in this thread: a packet needs it twice.
};

/// Processor time of reading the counter. Tells how fast the machine is just now.
double counterNs() {
  constexpr unsigned reads = 200'000;
  uint64_t sum = 0, start = processorNs();
  for (unsigned i = 0; i < reads; ++i)
    sum += ticks();
  const uint64_t used = processorNs() - start;
  return sum ? double(used) / reads : 0;
}

// Flat, as the client library's calls are.
[[gnu::flatten]] void produce(ring::Producer &producer, const Workload &workload, double seconds,
                              Produced &done) {
  static const char spaces[] = "1\0bar0";
  ring::Record open = {};
  open.type = ring::RecordType::DeviceOpen;
  producer.append(open, spaces, sizeof(spaces));
  const uint64_t start = nanoseconds(), end = start + uint64_t(seconds * 1e9), startNs = processorNs();
  const uint64_t startWaits = ownWaits();
  const size_t period = workload.accesses.size();
  uint64_t added = 0, packets = 0;
  size_t place = 0;
  for (; packets % 1024 || nanoseconds() < end; ++packets) {
    ring::Access access = workload.accesses[place];
    const uint64_t value = access.value + added;
    if (++place == period) {
      place = 0;
      added += workload.step;
    }
    if (access.kind() == PacketKind::RegisterRead)
      access.value = 0;
    else
      access.value = value;
    ring::IssuedAccess underway = producer.issueInPlace(access);
    if (!underway.name)
      giveUp("the ring took no record");
    producer.completeInPlace(underway, access, Completion::Done, value);
  }
  done = {packets, nanoseconds() - start, processorNs() - startNs, ownWaits() - startWaits, 0};
  done.counterNs = counterNs();
}

/// One producer, one collector, to a file; then the file is read in order, hashes checked.
json::Object stream(const ScratchDirectory &scratch, const Workload &workload, const Options &options) {
  std::string path = scratch.file("stream.tape");
  auto table = require(compileCaptureTable({{"device", "null:", nullptr}}));
  auto file = require(ring::RingFile::createAnonymous(table, {}));
  ring::Producer producer;
  if (producer.attachMapping(file->base(), file->bytes(), nullptr) != ring::Producer::Attach::Attached)
    giveUp("cannot attach to the ring");
  auto writer = require(TapeWriter::create(path, Manifest()));
  CollectorDevice device;
  device.alias = "device";
  device.uri = "null:";
  Collector collector(*writer, {device}, {});
  ring::RingConsumer consumer(*file);
  consumer.lagBehind();
  std::atomic<bool> done{false};
  Produced produced;
  uint64_t start = nanoseconds(), startNs = processorNs(), startWaits = ownWaits();
  std::thread thread([&] {
    produce(producer, workload, options.seconds, produced);
    done.store(true);
    consumer.wake();
  });
  ring::RingConsumer::Batch batchOfRing;
  auto drain = [&] {
    for (uint64_t count = 0;; ++count) {
      switch (consumer.next(batchOfRing)) {
      case ring::RingConsumer::Status::Empty: return;
      case ring::RingConsumer::Status::Corrupt: giveUp("the ring was damaged");
      case ring::RingConsumer::Status::Accesses:
        collector.acceptAccesses(batchOfRing.accesses, batchOfRing.firstName, batchOfRing.concurrent);
        break;
      case ring::RingConsumer::Status::Record:
        collector.accept(batchOfRing.record, batchOfRing.payload, batchOfRing.others);
      }
      if (count % 1024 == 0)
        collector.idle(nanoseconds());
    }
  };
  while (!done.load()) {
    drain();
    consumer.wait(250);
  }
  thread.join();
  consumer.freeze();
  drain();
  const uint64_t packets = produced.packets, drained = nanoseconds(), waits = ownWaits() - startWaits;
  TapeSummary summary = require(collector.finish({0, std::nullopt}));
  double elapsed = double(nanoseconds() - start) / 1e9, collectorNs = double(processorNs() - startNs),
         finishing = double(nanoseconds() - drained) / 1e9;
  if (!collector.report().whole() || summary.packets != packets + 1)
    giveUp("the stream is not whole");
  producer.release();

  uint64_t startRead = nanoseconds(), read = 0;
  auto reader = require(TapeReader::open(path));
  PacketBatch batch;
  do {
    require(reader->readBlockFrom(read, batch));
    read += batch.packets.size();
  } while (!batch.packets.empty());
  double readSeconds = double(nanoseconds() - startRead) / 1e9;
  if (read != summary.packets)
    giveUp("packets are missing on the tape");
  uint64_t bytes = 0;
  if (std::ifstream in(path, std::ios::ate | std::ios::binary); in)
    bytes = uint64_t(in.tellg());
  json::Object result;
  result["packets"] = int64_t(packets);
  result["stream_mpps"] = rounded(double(packets) / elapsed / 1e6);
  result["finish_s"] = rounded(finishing); // Of the elapsed time: until all of it is on the disk.
  result["producer_ns"] = rounded(double(produced.elapsedNs) / double(packets));
  result["producer_cpu_ns"] = rounded(double(produced.usedNs) / double(packets));
  result["counter_ns"] = rounded(produced.counterNs);
  result["producer_waits"] = int64_t(produced.waits);
  result["collector_waits"] = int64_t(waits);
  result["collector_cpu_ns"] = rounded(collectorNs / double(packets));
  result["bytes_per_packet"] = rounded(double(bytes) / double(packets));
  result["read_mpps"] = rounded(double(read) / readSeconds / 1e6);
  return result;
}

// Payloads.

/// Of a pass over all contents.
struct Cost {
  double elapsed = 1e18, processor = 1e18; ///< Nanoseconds; the processor's of this thread.
  /// The lesser of each.
  void improve(const Cost &other) {
    elapsed = std::min(elapsed, other.elapsed);
    processor = std::min(processor, other.processor);
  }
};
template <typename F>
Cost costOf(F work) {
  uint64_t start = nanoseconds(), startUsed = processorNs();
  work();
  Cost cost;
  cost.processor = double(processorNs() - startUsed);
  cost.elapsed = double(nanoseconds() - start);
  return cost;
}

/// What it costs to give all contents to a new tape (`first`), and once more (`again`).
void storePayloads(const std::string &path, const std::vector<std::vector<uint8_t>> &contents, Cost &first,
                   Cost &again) {
  WriterOptions options;
  options.syncOnFinish = false; // The disk is not what is measured.
  auto writer = require(TapeWriter::create(path, Manifest(), options));
  auto store = [&] {
    for (const auto &content : contents)
      require(writer->blob(content).takeError());
  };
  first.improve(costOf([&] {
    store();
    require(writer->flush());
  }));
  again.improve(costOf(store));
  writer->discard();
}

json::Object payloads(const ScratchDirectory &scratch) {
  constexpr size_t bytes = 64 << 10, count = 512;
  std::mt19937_64 random(2);
  auto make = [&](bool compressible) {
    std::vector<std::vector<uint8_t>> contents(count, std::vector<uint8_t>(bytes));
    for (auto &content : contents)
      for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = compressible && i % 64 ? (i >> 3) & 0xff : random();
        std::memcpy(content.data() + i, &word, 8);
      }
    return contents;
  };
  // The best of some rounds, in turns, so that a busy machine hits all alike.
  auto text = make(true), noise = make(false);
  std::vector<char> out(static_cast<size_t>(LZ4_compressBound(int(bytes))));
  uint64_t stored = 0;
  Cost lz4, newText, oldText, newNoise, oldNoise;
  for (unsigned round = 0; round < 9; ++round) {
    stored = 0;
    lz4.improve(costOf([&] {
      for (const auto &content : text)
        stored += uint64_t(LZ4_compress_default(reinterpret_cast<const char *>(content.data()), out.data(),
                                                int(bytes), int(out.size())));
    }));
    storePayloads(scratch.file("payload.tape"), text, newText, oldText);
    storePayloads(scratch.file("noise.tape"), noise, newNoise, oldNoise);
  }
  double all = double(bytes * count);
  json::Object result;
  result["lz4_ratio"] = rounded(all / double(stored));
  result["lz4_gbps"] = rounded(all / lz4.elapsed);
  result["compressible_to_lz4"] = rounded(lz4.elapsed / newText.elapsed);
  result["incompressible_gbps"] = rounded(all / newNoise.elapsed);
  result["unchanged_gbps"] = rounded(2 * all / (oldText.elapsed + oldNoise.elapsed));
  // What the same is for the recording thread alone, whoever else uses the machine.
  result["compressible_to_lz4_of_thread"] = rounded(lz4.processor / newText.processor);
  result["incompressible_gbps_of_thread"] = rounded(all / newNoise.processor);
  result["unchanged_gbps_of_thread"] = rounded(2 * all / (oldText.processor + oldNoise.processor));
  return result;
}

Options parse(int argc, char **argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string name = argv[i];
    char *end = nullptr;
    if (i + 1 < argc && name == "--calls")
      options.calls = std::strtoull(argv[++i], &end, 10);
    else if (i + 1 < argc && name == "--seconds")
      options.seconds = std::strtod(argv[++i], &end);
    else if (i + 1 < argc && name == "--only") {
      options.only = argv[++i];
      end = argv[i] + options.only.size();
    }
    if (!end || *end || !options.calls || !(options.seconds > 0))
      giveUp("usage: recorder-bench [--calls N] [--seconds S] [--only calls|streams|payloads]");
  }
  return options;
}

} // namespace

int main(int argc, char **argv) {
  Options options = parse(argc, argv);
  ScratchDirectory scratch;
  json::Object result;
  result["benchmark"] = "recorder";
  if (options.wants("calls"))
    result["hot_path"] = hotPath(scratch, options);
  if (options.wants("streams")) {
    result["registers"] = stream(scratch, madeWorkload("registers", Traffic::Registers), options);
    result["command_ring"] = stream(scratch, madeWorkload("command ring", Traffic::Ring), options);
    json::Object corpus;
    for (const CorpusLog &log : corpusLogs())
      corpus[log.name] = stream(scratch, corpusWorkload(log), options);
    if (corpus.empty())
      corpus["skipped"] = "TAPEBACK_CORPUS does not name a folder with logs";
    result["corpus"] = std::move(corpus);
  }
  if (options.wants("payloads"))
    result["payloads"] = payloads(scratch);
  llvm::outs() << llvm::formatv("{0:2}", json::Value(std::move(result))) << "\n";
  return 0;
}
