// The host process's half of the protocol: one request in, the plugin called, one reply out.
#pragma once

#include "hal/model/HostProtocol.h"
#include "hal/model/host/HostMemory.h"
#include "hal/model/host/PluginTable.h"

namespace tapeback::modelhost {

/// One model instance. Lives until the target closes the channel. Not thread-safe.
class Session {
public:
  /// Answers requests until the channel closes. Returns the process's exit code.
  int run();

private:
  /// Result of one command: goes into the reply's status and text.
  using Status = int32_t;

  Status dispatch(Command command, WireReader &request, WireWriter &body);
  Status hello(WireReader &request, WireWriter &body);
  Status createInstance(WireReader &request);
  void describe(WireWriter &body) const;
  Status execute(WireReader &request, WireWriter &body);
  Status counters(WireReader &request, WireWriter &body);
  Status advance(WireReader &request, WireWriter &body);
  Status mapMemory(WireReader &request);
  Status unmapMemory(WireReader &request);
  Status peek(WireReader &request, WireWriter &body);
  Status look(WireReader &request, WireWriter &body);
  Status lookAtWindow(uint32_t window, uint32_t *pages, bool *more, WireWriter &body);
  Status snapshotSave(WireWriter &body);
  Status snapshotRead(WireReader &request, WireWriter &body);
  Status snapshotWrite(WireReader &request);
  Status snapshotLoad();
  Status traceBegin(WireReader &request);
  Status traceEnd();

  /// A status with its text.
  __attribute__((format(printf, 3, 4))) Status fail(Status status, const char *format, ...);
  /// The plugin's status, with its own words for it.
  Status fromPlugin(int status, const char *call);
  size_t writeReply(const MessageHeader &request, Status status, size_t bodyBytes);
  /// What rides along, into `values` (1 + maxReadings); returns how many, 0 if one cannot be had.
  uint32_t takeReadings(uint64_t *values) const;

  static int dmaRead(void *host, uint64_t iova, void *out, uint64_t size);
  static int dmaWrite(void *host, uint64_t iova, const void *in, uint64_t size);
  static int raiseInterrupt(void *host, uint32_t vector);
  static void log(void *host, int level, const char *text);

  PluginTable plugin{};
  tapeback_model_host callbacks{};
  void *instance = nullptr;
  HostMemory memory;

  uint64_t pending[maxVectors] = {}; ///< Raised and not yet reported.
  uint32_t raised[maxVectors] = {};  ///< The vectors with pending != 0, in order of first raise.
  uint32_t raisedCount = 0;
  uint64_t interrupts = 0; ///< Ever.

  bool timeRides = false;
  uint32_t riding[maxReadings] = {}; ///< Identifiers of counters.
  uint32_t ridingCount = 0;

  uint8_t *snapshot = nullptr; ///< On its way out or in.
  uint64_t snapshotTotal = 0, snapshotFilled = 0;

  uint8_t *shown[maxWindows] = {}; ///< Of each window, what was shown last; null: nothing yet.
  uint8_t *seen = nullptr;         ///< Room for the largest window.
  uint64_t shownBytes = 0, seenBytes = 0;

  char text[maxTextBytes] = {};
  uint8_t in[maxMessageBytes];
  uint8_t out[maxMessageBytes];
};

} // namespace tapeback::modelhost
