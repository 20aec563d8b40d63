// What a verb says: text or the contract's one JSON object on standard output, errors on standard error, exit
// codes.
#pragma once

#include "format/Failure.h"
#include "format/Records.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <optional>
#include <string>

namespace tapeback {

/// The exit code of a failure: Usage 2, Tape 3, Target 4, Loss 5; System 5 too (docs/decisions: exit codes).
int exitCodeOf(const Failure &failure);
/// Of two exit codes the one that counts when both apply: 2, 3, 4, 1, 5, 0.
int worseExit(int a, int b);

/// One verb's report. Text goes to llvm::outs(); JSON is collected and written by finish(), so that an error
/// half-way still gives exactly one object. Nothing is written to standard output in JSON mode but that
/// object.
class Report {
public:
  Report(llvm::StringRef verb, bool json);
  Report(const Report &) = delete;
  Report &operator=(const Report &) = delete;
  ~Report() { close(); }

  bool json() const { return wantsJson; }
  /// Attributes of the object, in the order they are written; "schema" is already there. Ignored in text
  /// mode.
  llvm::json::OStream &object() { return *stream; }
  /// How long the object is by now.
  uint64_t objectBytes() {
    stream->flush();
    return buffer.size();
  }
  /// The three attributes that every object carries, for verbs whose verdict follows from their exit code: 0
  /// "match", 1 "divergence", 5 "incomplete", others "error".
  void verdict(int exitCode, const std::optional<Signature> &signature = std::nullopt);
  /// Adds the contract's "error" attribute to the object and prints the failure to standard error: for verbs
  /// that have results beside the error. The caller passes exitCodeOf(failure) to finish().
  void error(const Failure &failure);

  /// Ends the report. Returns `exitCode`, or 5 with a message on standard error if standard output could not
  /// be written. A reader that went away (a broken pipe) has seen what it wanted and is not an error.
  int finish(int exitCode);
  /// The error is the whole result: replaces the object by one with "verdict": "error", "reproduced": null,
  /// "signature": null and "error". Returns the exit code.
  int fail(llvm::Error error);
  int fail(const Failure &failure);

  /// "tapeback VERB: warning: message" on standard error.
  void warn(llvm::StringRef message);

private:
  void begin();
  void close();
  void printFailure(const Failure &failure) const;

  std::string verb;
  bool wantsJson;
  bool open = false; ///< The object lacks its end.
  std::string buffer;
  std::optional<llvm::raw_string_ostream> bufferStream;
  std::optional<llvm::json::OStream> stream;
};

/// Sends what llvm::outs() holds. False if it could not be written and nobody closed the pipe on purpose;
/// `why` says why.
bool flushStandardOutput(std::string &why);
/// True once the reader of standard output went away: long listings stop.
bool standardOutputGone();

/// A 64-bit address or value as the contract wants it: "0xfebf0000".
std::string hex(uint64_t value);

/// The contract's place.
struct Place {
  uint16_t device = 0, thread = 0;
  uint64_t window = 0, packet = 0;
  std::optional<std::string> marker;
  std::optional<uint64_t> command; ///< Commands since that marker.
};
/// Its attributes, into the object that is open.
void writePlace(llvm::json::OStream &os, const Place &place);

/// The contract's first_divergence. Absent values are written as null.
struct DivergenceReport {
  Place place;
  std::string kind;  ///< packetKindName().
  std::string space; ///< "bar0", "memory".
  uint64_t address = 0;
  std::optional<std::string> reg, field;
  std::optional<uint64_t> offset; ///< Of the first wrong byte.
  std::optional<uint64_t> first, second;
};
/// `key`: an object, or null if there is none. `firstName`, `secondName`: "recorded" and "replayed", or
/// "good" and "bad". `more` adds attributes at the end of the object.
void writeDivergence(
    llvm::json::OStream &os, llvm::StringRef key, const std::optional<DivergenceReport> &divergence,
    llvm::StringRef firstName = "recorded", llvm::StringRef secondName = "replayed",
    llvm::function_ref<void(llvm::json::OStream &)> more = [](llvm::json::OStream &) {});
/// `key`: an object, or null if there is none.
void writeSignature(llvm::json::OStream &os, llvm::StringRef key, const std::optional<Signature> &signature);

} // namespace tapeback
