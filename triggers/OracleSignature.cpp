#include "triggers/OracleSignature.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/bit.h"
#include <cstring>

using namespace llvm;

namespace tapeback {

static void setPlace(Signature &signature, const OraclePlace &place) {
  signature.marker = place.marker;
  signature.markerOccurrence = place.markerOccurrence;
  signature.command = place.commandsSinceMarker;
}

static bool accessesRegister(PacketKind kind) {
  return kind == PacketKind::RegisterRead || kind == PacketKind::RegisterWrite || kind == PacketKind::Poll;
}

std::string placeName(const Packet &access, StringRef space, const Description *description) {
  if (!accessesRegister(access.kind)) {
    const char *name = packetKindName(access.kind);
    return name ? name : "unknown";
  }
  if (description)
    if (const RegisterDescription *reg = description->find(space, access.address, access.width))
      return reg->name;
  return (space + "+0x" + utohexstr(access.address, /*LowerCase=*/true)).str();
}

Signature checkSignature(const Packet &oracle, const PacketExtra &extra, StringRef name, const Packet *source,
                         StringRef space, const Description *description, const OraclePlace &place) {
  Signature signature;
  signature.oracle = "check";
  signature.name = name.str();
  setPlace(signature, place);
  if (extra.length) {
    signature.object = "memory";
    signature.offset = extra.count;
    signature.xorClass = (extra.expected ^ oracle.value) & 0xff;
    return signature;
  }
  if (!extra.mask) // tb_check and tb_fail: nothing was compared.
    return signature;
  uint64_t wrong = (extra.expected ^ oracle.value) & extra.mask;
  signature.xorClass = wrong;
  signature.offset = wrong ? unsigned(countr_zero(wrong)) / 8 : 0;
  if (!source)
    return signature;
  signature.object = placeName(*source, space, description);
  if (description && accessesRegister(source->kind))
    if (const RegisterDescription *reg = description->find(space, source->address, source->width)) {
      uint64_t shift = (source->address - reg->offset) * 8;
      signature.field = description->fieldOf(*reg, shift < 64 ? wrong << shift : 0);
    }
  return signature;
}

Signature targetErrorSignature(const Packet &operation, StringRef space, const Description *description,
                               const OraclePlace &place) {
  Signature signature;
  signature.oracle = "target-error";
  const char *kind = packetKindName(operation.kind);
  signature.name = kind ? kind : "unknown";
  signature.object = placeName(operation, space, description);
  setPlace(signature, place);
  return signature;
}

static std::string endName(int signal, int exitCode) {
  if (!signal)
    return "exit-" + std::to_string(exitCode);
  const char *abbreviation = sigabbrev_np(signal);
  return abbreviation ? std::string("SIG") + abbreviation : "signal-" + std::to_string(signal);
}

Signature machineDeathSignature(int signal, int exitCode, StringRef lastWords) {
  Signature signature;
  signature.oracle = "target-died";
  signature.name = endName(signal, exitCode);
  auto [program, rest] = lastWords.split(": ");
  if (program.contains("qemu-system-") && !program.contains(' '))
    lastWords = rest;
  signature.object = lastWords.str();
  return signature;
}

Signature diedSignature(int signal, int exitCode, const OraclePlace &place) {
  Signature signature;
  signature.oracle = "died";
  signature.name = endName(signal, exitCode);
  setPlace(signature, place);
  return signature;
}

} // namespace tapeback
