// Records what transfers read and wrote, as far as the tape does not have it.
#pragma once

#include "recorder/client/MemoryShadow.h"
#include <cstdint>

struct tb_device;

namespace tapeback::client {

/// A transfer that the device was told to do, as its packets say.
struct Transfer {
  Rows rows;                            ///< Of the host's memory.
  uint64_t length, count, hostStride;   ///< As on the tape: count 0 is one piece.
  uint64_t deviceAddress, deviceStride; ///< deviceStride 0 where count is 0.
  Rows owned;        ///< From the device: what of it is mapped, from its start; count 0: nothing.
  uint64_t sequence; ///< Of its descriptor; 0: none.
  bool toDevice, done;
};

/// How much may still be done for one register write, in bytes looked at: a program can make a queue as
/// tangled as it likes.
class Budget {
public:
  explicit Budget(uint64_t bytes) : left(bytes) {}
  bool spend(uint64_t bytes) {
    left = bytes < left ? left - bytes : 0;
    return left != 0;
  }
  bool over() const { return left == 0; }
  /// True once, when it is over.
  bool justOver() { return left == 0 && !exchange(told); }

private:
  static bool exchange(bool &flag) {
    bool was = flag;
    flag = true;
    return was;
  }
  uint64_t left;
  bool told = false;
};

/// One per device that has queues, used with the device's lock held.
class Capture {
public:
  static constexpr uint64_t maxRows = 65536; ///< Of one transfer that is followed.

  MemoryShadow shadow;

  /// Content of a contiguous range, or null: not mapped, or no memory. Valid until the next call.
  const uint8_t *look(tb_device &owner, uint64_t address, uint64_t bytes);
  /// Records the host's content where the tape does not have it and it is not the device's.
  void publish(tb_device &owner, const Rows &rows, Budget &budget);
  /// Records what the device will read or overwrite, and its descriptor; a transfer from the device owns its
  /// range from now on. True if the host had stored something there that the tape did not know.
  bool start(tb_device &owner, Transfer &transfer, Budget &budget);
  /// A transfer that cannot be followed: its descriptor only.
  void startBlind(tb_device &owner, Transfer &transfer, Budget &budget);
  /// Records that it is done, and what it wrote. False if nobody can tell what it wrote.
  bool complete(tb_device &owner, const Transfer &transfer);
  /// The same once more. Call only for ranges that complete() could tell and that nobody has had since.
  void recheck(tb_device &owner, const Transfer &transfer);
  /// What a transfer to the device read was the device's until now: records it, as evidence, if the host's
  /// content is not what it was (a store after the doorbell, of which nobody knows whether the device saw
  /// it).
  void recheckSource(tb_device &owner, const Transfer &transfer);
  void clear();

private:
  /// Puts rows one behind the other into the buffer, as far as the capture limit lets it. Null: not mapped,
  /// or no memory.
  const uint8_t *gather(tb_device &owner, const Rows &rows, uint64_t &bytes);
  bool grow(uint64_t bytes);
  void shrink();
  bool knows(const Rows &rows, const uint8_t *content, uint64_t bytes) const;
  void learn(const Rows &rows, const uint8_t *content, uint64_t bytes);
  bool publishPieces(tb_device &owner, const Rows &rows, Budget &budget);

  uint8_t *buffer = nullptr;
  uint64_t capacity = 0;
};

} // namespace tapeback::client
