// Records programs as a user would, and reads the tapes back.
#pragma once

#include "format/TapeReader.h"
#include "tests/support/RunProgram.h"
#include "llvm/Support/JSON.h"
#include <doctest/doctest.h>
#include <optional>
#include <string>
#include <vector>

namespace tapeback::test {

inline std::string scenarioProgram() {
  return TAPEBACK_BINARY_DIR "/bin/tests/recorder-scenarios";
}
inline std::string testModelUri() {
  return "model:" TAPEBACK_BINARY_DIR "/lib/tapeback/recorder-test-model.so";
}
inline std::string testDescription() {
  return TAPEBACK_SOURCE_DIR "/tests/recorder/programs/test-device.yaml";
}

/// The arguments of a recording of a scenario on the test model. Without ticks: a machine that is busy may
/// let a second pass in the middle of a scenario.
inline std::vector<std::string> recordCommand(const std::string &tape,
                                              const std::vector<std::string> &scenario,
                                              const std::vector<std::string> &options = {}) {
  std::vector<std::string> command{
      tapebackProgram(), "record", "--json", "--target", testModelUri(), "--description", testDescription(),
      "--tick",          "0",      "-o",     tape};
  command.insert(command.end(), options.begin(), options.end());
  command.push_back("--");
  command.push_back(scenarioProgram());
  command.insert(command.end(), scenario.begin(), scenario.end());
  return command;
}

/// All of a tape, in memory.
struct WholeTape {
  explicit WholeTape(const std::string &path) {
    llvm::Expected<VerifyReport> verified = verifyTape(path);
    if (!verified) {
      error = llvm::toString(verified.takeError());
      return;
    }
    llvm::Expected<std::unique_ptr<TapeReader>> opened = TapeReader::open(path);
    if (!opened) {
      error = llvm::toString(opened.takeError());
      return;
    }
    reader = std::move(*opened);
    for (uint64_t at = 0;;) {
      PacketBatch batch;
      if (llvm::Error failure = reader->readBlockFrom(at, batch)) {
        error = llvm::toString(std::move(failure));
        return;
      }
      if (batch.packets.empty())
        return;
      for (const Packet &packet : batch.packets) {
        packets.push_back(packet);
        extras.push_back(batch.extra(packet));
      }
      at += batch.packets.size();
    }
  }
  std::string payload(size_t packet) {
    if (!extras[packet].payload)
      return "";
    llvm::Expected<llvm::ArrayRef<uint8_t>> content = reader->blob(extras[packet].payload);
    if (!content) {
      error = llvm::toString(content.takeError());
      return "";
    }
    return std::string(content->begin(), content->end());
  }
  std::vector<size_t> find(PacketKind kind) const {
    std::vector<size_t> found;
    for (size_t i = 0; i < packets.size(); ++i)
      if (packets[i].kind == kind)
        found.push_back(i);
    return found;
  }

  std::unique_ptr<TapeReader> reader;
  std::vector<Packet> packets;
  std::vector<PacketExtra> extras;
  std::string error; ///< Empty if it verified and was read.
};

/// The one JSON object of a run, or an empty one.
inline llvm::json::Object jsonOf(const RunResult &result) {
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(result.out);
  if (!value) {
    llvm::consumeError(value.takeError()); // The test finds nothing in the object, and fails.
    return {};
  }
  return value->getAsObject() ? *value->getAsObject() : llvm::json::Object();
}

} // namespace tapeback::test
