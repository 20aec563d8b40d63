#include "triggers/Program.h"

namespace tapeback::triggers {

llvm::ArrayRef<PacketFieldName> packetFields() {
  static constexpr PacketFieldName all[] = {
      {"value", PacketField::Value, false, 64},
      {"address", PacketField::Address, false, 64},
      {"width", PacketField::Width, false, 8},
      {"thread", PacketField::Thread, false, 16},
      {"issue", PacketField::Issue, false, 64},
      {"complete", PacketField::Complete, false, 64},
      {"duration", PacketField::Duration, false, 64},
      {"length", PacketField::Length, false, 64},
      {"mask", PacketField::Mask, false, 64},
      {"expected", PacketField::Expected, false, 64},
      {"deadline", PacketField::Deadline, false, 64},
      {"count", PacketField::Count, false, 64},
      {"link", PacketField::Link, false, 64},
      {"packet", PacketField::Packet, false, 64},
      {"payload-size", PacketField::PayloadSize, false, 64},
      {"queue", PacketField::Queue, false, 64},
      {"vector", PacketField::Vector, false, 32},
      {"completion", PacketField::Completion, false, 2},
      {"origin", PacketField::Origin, false, 2},
      {"failed", PacketField::Failed, true, 1},
      {"concurrent", PacketField::Concurrent, true, 1},
      {"truncated", PacketField::Truncated, true, 1},
      {"not-captured", PacketField::NotCaptured, true, 1},
      {"to-device", PacketField::ToDevice, true, 1},
      {"from-device", PacketField::FromDevice, true, 1},
      {"device-owned", PacketField::DeviceOwned, true, 1},
      {"expired", PacketField::Expired, false, 64},
  };
  static_assert(std::size(all) == packetFieldCount);
  return all;
}

} // namespace tapeback::triggers
