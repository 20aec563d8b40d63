// Request and reply with a model's host process. Everything that comes back is checked here.
#pragma once

#include "format/Failure.h"
#include "hal/model/HostProcess.h"
#include "hal/model/HostProtocol.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <vector>

namespace tapeback {

/// One channel, one request at a time. A host that dies, does not answer in time or answers nonsense is
/// killed, and from then on every call fails with the same Failure: codes "target-died", "target-hung",
/// "target-protocol".
class ModelChannel {
public:
  /// A reply that is well-formed; its parts point into the channel's buffer and are valid until the next
  /// call.
  struct Reply {
    int32_t status = 0;
    modelhost::WireReader body{nullptr, 0};
    std::vector<modelhost::InterruptEntry> interrupts;
    std::string text;               ///< Printable.
    std::vector<uint64_t> readings; ///< None where a request has none.
  };

  /// Nothing if the message is not exactly a reply to that request. The reply's body points into `message`.
  static std::optional<Reply> parseReply(llvm::ArrayRef<uint8_t> message, modelhost::Command command,
                                         uint32_t sequence);

  /// `name` is the model, for messages.
  ModelChannel(std::string name, uint64_t timeoutMs);

  llvm::Error start(const std::string &program, int memory) { return process.start(program, memory); }

  /// Starts a request; append its content to what this returns, then call().
  modelhost::WireWriter &request(modelhost::Command command);
  llvm::Expected<Reply *> call();

  /// Ends the host for something it said: a protocol failure.
  llvm::Error misbehaved(const std::string &what);

  modelhost::Command command() const { return requested; } ///< The last request's.
  uint64_t timeoutNs() const { return timeout; }
  pid_t hostProcess() const { return process.id(); }

private:
  llvm::Error deathFailure() const;
  llvm::Error die(std::string code, const std::string &what);

  std::string name;
  uint64_t timeout;
  HostProcess process;
  std::optional<Failure> death;
  modelhost::Command requested = modelhost::Command::Hello;
  uint32_t sequence = 0;
  std::vector<uint8_t> outgoing, incoming;
  modelhost::WireWriter writer;
  Reply reply;
};

/// Text from a plugin with everything unprintable replaced, of bounded length.
std::string printableText(llvm::StringRef text);

} // namespace tapeback
