// A Verilated model's state to memory and back: Verilator's own classes know files only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>
#include <verilated_save.h>

namespace tapeback::minnow {

class ArchiveWriter final : public VerilatedSerialize {
public:
  explicit ArchiveWriter(std::vector<uint8_t> &bytes) : bytes(bytes) {
    m_isOpen = true;
    header();
  }
  ~ArchiveWriter() override { close(); }
  void close() override {
    if (!m_isOpen)
      return;
    trailer();
    flush();
    m_isOpen = false;
  }
  void flush() override {
    bytes.insert(bytes.end(), m_bufp, m_cp);
    m_cp = m_bufp;
  }

private:
  std::vector<uint8_t> &bytes;
};

/// Give it only what an ArchiveWriter of the same build wrote: Verilator ends the process on anything else.
class ArchiveReader final : public VerilatedDeserialize {
public:
  ArchiveReader(const uint8_t *from, size_t size) : next(from), left(size) {
    m_endp = m_bufp;
    m_isOpen = true;
    header();
  }
  void close() override {
    if (m_isOpen)
      trailer();
    m_isOpen = false;
  }

private:
  void fill() override {
    size_t unread = size_t(m_endp - m_cp);
    std::memmove(m_bufp, m_cp, unread);
    size_t taken = std::min(bufferSize() - unread, left);
    std::memcpy(m_bufp + unread, next, taken);
    next += taken;
    left -= taken;
    // Behind the end come zeroes, so that readers need not look for it.
    std::memset(m_bufp + unread + taken, 0, bufferSize() - unread - taken);
    m_cp = m_bufp;
    m_endp = m_bufp + bufferSize();
  }

  const uint8_t *next;
  size_t left;
};

} // namespace tapeback::minnow
