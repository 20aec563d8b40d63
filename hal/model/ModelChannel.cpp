#include "hal/model/ModelChannel.h"
#include <cerrno>
#include <sys/socket.h>

namespace tapeback {

using namespace modelhost;

std::string printableText(llvm::StringRef text) {
  std::string shown;
  for (unsigned char c : text.take_front(maxTextBytes))
    shown.push_back(c >= 0x20 && c != 0x7f ? char(c) : c == '\n' ? ' ' : '?');
  return shown;
}

ModelChannel::ModelChannel(std::string name, uint64_t timeoutMs)
    : name(std::move(name)), timeout(timeoutMs * 1000000), outgoing(maxMessageBytes),
      incoming(maxMessageBytes), writer{outgoing.data(), outgoing.size()} {}

WireWriter &ModelChannel::request(Command wanted) {
  requested = wanted;
  writer.size = sizeof(MessageHeader);
  writer.overflow = false;
  return writer;
}

llvm::Error ModelChannel::deathFailure() const {
  return llvm::make_error<Failure>(*death);
}

llvm::Error ModelChannel::die(std::string code, const std::string &what) {
  std::string fate = process.finish();
  std::string message = "the model '" + name + "' " + what;
  if (code == "target-died")
    message += ": its process " + fate;
  std::string words = process.lastWords();
  if (!words.empty())
    message += "; its last words: " + words;
  death.emplace(FailureClass::Target, std::move(code), std::move(message), std::string(),
                "the target is dead: open it again; if it is the model's fault, debug the model");
  return deathFailure();
}

llvm::Error ModelChannel::misbehaved(const std::string &what) {
  if (death)
    return deathFailure();
  return die("target-protocol", "broke the protocol: " + what);
}

llvm::Expected<ModelChannel::Reply *> ModelChannel::call() {
  if (death)
    return deathFailure();
  if (writer.overflow)
    return failUsage("request-too-big",
                     "the request does not fit into a message to the model '" + name + "'");
  ++sequence;
  MessageHeader header{protocolMagic, protocolVersion, uint16_t(requested), uint32_t(writer.size), sequence};
  memcpy(outgoing.data(), &header, sizeof header);
  uint64_t deadline = HostProcess::nowNs() + timeout;
  ssize_t sent;
  do
    sent = ::send(process.channel(), outgoing.data(), writer.size, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  if (sent < 0 && errno != EPIPE && errno != ECONNRESET)
    return die("target-protocol", "does not take requests");
  // After a failed send the host is gone, but it may have left a message: wait() finds out.
  while (true) {
    switch (process.wait(deadline)) {
    case HostProcess::Event::Message: break;
    case HostProcess::Event::Death: return die("target-died", "died");
    case HostProcess::Event::Timeout:
      return die("target-hung",
                 "did not answer within " + std::to_string(timeout / 1000000) + " ms and was killed");
    }
    ssize_t got = ::recv(process.channel(), incoming.data(), incoming.size(), MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
      continue;
    if (got <= 0)
      return die("target-died", "died");
    std::optional<Reply> parsed;
    if (size_t(got) <= incoming.size())
      parsed = parseReply(llvm::ArrayRef<uint8_t>(incoming.data(), size_t(got)), requested, sequence);
    if (!parsed)
      return misbehaved("a malformed reply");
    reply = std::move(*parsed);
    return &reply;
  }
}

std::optional<ModelChannel::Reply> ModelChannel::parseReply(llvm::ArrayRef<uint8_t> bytes, Command command,
                                                            uint32_t sequence) {
  WireReader message{bytes.data(), bytes.size()};
  auto header = message.get<ReplyHeader>();
  if (message.failed || header.message.magic != protocolMagic || header.message.version != protocolVersion ||
      header.message.command != uint16_t(command) || header.message.size != bytes.size() ||
      header.message.sequence != sequence || header.status > 0 || header.interruptCount > maxVectors ||
      header.textBytes > maxTextBytes || header.readingCount > 1 + maxReadings || header.reserved)
    return std::nullopt;
  Reply reply;
  reply.status = header.status;
  reply.body = WireReader{message.bytes(header.bodyBytes), header.bodyBytes};
  for (uint32_t i = 0; i < header.interruptCount; ++i)
    reply.interrupts.push_back(message.get<InterruptEntry>());
  const uint8_t *text = message.bytes(header.textBytes);
  for (uint32_t i = 0; i < header.readingCount; ++i)
    reply.readings.push_back(message.get<uint64_t>());
  if (message.failed || message.left())
    return std::nullopt;
  reply.text = printableText(llvm::StringRef(reinterpret_cast<const char *>(text), header.textBytes));
  return reply;
}

} // namespace tapeback
