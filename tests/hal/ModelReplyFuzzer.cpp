// Whatever a plugin makes its host process say: replies and tables.
#include "hal/model/ModelChannel.h"
#include "hal/model/ModelTable.h"
#include <cstdlib>

using namespace tapeback;
using namespace tapeback::modelhost;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  llvm::ArrayRef<uint8_t> rest(data + 1, size - 1);
  if (data[0] & 1) {
    WireReader reader{rest.data(), rest.size()};
    if (std::optional<ModelTable> table = parseModelTable(reader)) {
      if (table->name.empty() || table->spaces.size() > maxSpaces || table->windows.size() > maxWindows ||
          table->facts.size() > maxFacts || table->vectors > maxVectors)
        std::abort();
    }
    return 0;
  }
  // The header is made right, so that what is behind it is reached.
  std::vector<uint8_t> message(rest.begin(), rest.end());
  if (message.size() >= sizeof(MessageHeader)) {
    MessageHeader header{protocolMagic, protocolVersion, uint16_t(Command::Execute), uint32_t(message.size()),
                         1};
    memcpy(message.data(), &header, sizeof header);
  }
  std::optional<ModelChannel::Reply> reply = ModelChannel::parseReply(message, Command::Execute, 1);
  if (!reply)
    return 0;
  if (reply->body.size > message.size() || reply->interrupts.size() > maxVectors ||
      reply->text.size() > maxTextBytes)
    std::abort();
  for (unsigned char c : reply->text)
    if (c < 0x20 || c == 0x7f)
      std::abort();
  while (!reply->body.failed)
    reply->body.get<uint64_t>();
  return 0;
}
