#include "recorder/import/NvdlaMemory.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CRC.h"

using namespace llvm;

namespace tapeback {
namespace {

constexpr uint64_t pieceBytes = 1u << 20;
constexpr size_t maxRanges = 4096, maxImages = 4096;

/// "0x.. 0x.." appended to `bytes`; false at the first word that is none.
bool hexWords(Scanner &s, std::vector<uint8_t> &bytes) {
  uint64_t value;
  for (s.blanks(); !s.atEnd() && s.peek() != '}'; s.blanks()) {
    if (!s.hex(value) || value > 0xff)
      return false;
    bytes.push_back(uint8_t(value));
  }
  return true;
}

uint32_t crcOfZeros(uint64_t length) {
  static constexpr uint8_t zeros[4096] = {};
  uint32_t crc = 0;
  for (; length; length -= std::min<uint64_t>(length, sizeof zeros))
    crc = crc32(crc, ArrayRef(zeros).take_front(std::min<uint64_t>(length, sizeof zeros)));
  return crc;
}

} // namespace

Error readMemoryImage(LineReader &lines, function_ref<bool(uint64_t, ArrayRef<uint8_t>)> take,
                      function_ref<void(uint64_t, const char *)> bad) {
  std::vector<uint8_t> bytes;
  uint64_t at = 0, start = 0;
  auto flush = [&] {
    bool more = bytes.empty() || take(start, bytes);
    bytes.clear();
    start = at;
    return more;
  };
  CaptureLine line;
  for (;;) {
    Expected<bool> more = lines.next(line);
    if (!more)
      return more.takeError();
    if (!*more)
      break;
    StringRef text = trimmed(line.text);
    if (text.empty() || text == "{" || text == "}" || text == "};" || text.starts_with("#") ||
        text.starts_with("//") || text.starts_with("====") || text.starts_with("dumped memory") ||
        text.starts_with("memory type") || text == "dump done" ||
        (!text.starts_with("{") && text.contains(" = ")))
      continue;
    if (line.tooLong) {
      bad(line.number, "the line is longer than 4 MiB");
      continue;
    }
    Scanner s(text);
    size_t before = bytes.size();
    if (s.eat('{')) {
      uint64_t offset = 0, size = 0;
      s.blanks();
      bool fits = s.eat("offset:") && s.cNumber(offset) && s.eat(',');
      s.blanks();
      fits = fits && s.eat("size:") && s.cNumber(size) && s.eat(',');
      s.blanks();
      if (!fits || !s.eat("payload:") || offset > NvdlaMemory::maxBytes) {
        bad(line.number, "{offset:…, size:…, payload:…} is wanted");
        continue;
      }
      if (offset != at) {
        at = offset;
        if (!flush())
          return Error::success();
        before = 0;
      }
      if (!hexWords(s, bytes) || !s.eat('}') || bytes.size() - before != size) {
        bytes.resize(before);
        bad(line.number, "the payload is not as many bytes (0x..) as it says");
        continue;
      }
    } else if (!hexWords(s, bytes) || !s.atEnd()) {
      bytes.resize(before);
      bad(line.number, "bytes (0x..) are wanted");
      continue;
    }
    at += bytes.size() - before;
    if (bytes.size() >= pieceBytes && !flush())
      return Error::success();
  }
  flush();
  return Error::success();
}

void NvdlaMemory::uses(uint64_t address, uint64_t length) {
  if (used.size() < maxRanges && length && length <= maxBytes)
    used.push_back({address, length});
}

void NvdlaMemory::mapAll(ImportOutput &out, uint16_t device) {
  for (auto [address, length] : used)
    out.mapMemory(device, address, length);
}

void NvdlaMemory::put(ImportOutput &out, uint16_t device, uint64_t address, ArrayRef<uint8_t> bytes) {
  out.mapMemory(device, address, bytes.size());
  while (!bytes.empty()) {
    ArrayRef<uint8_t> piece = bytes.take_front(pieceBytes);
    Packet packet;
    packet.kind = PacketKind::MemoryWrite;
    packet.device = device;
    packet.address = address;
    out.append(packet, {}, piece);
    address += piece.size();
    bytes = bytes.drop_front(piece.size());
  }
}

void NvdlaMemory::fill(ImportOutput &out, uint16_t device, uint64_t address, uint64_t length, uint8_t value) {
  images.erase(address);
  if (length > fillBudget) {
    out.warn("too-much-memory", "the trace fills more than 4 GiB: the content is not captured from here on");
    return notTold(out, device, address, length);
  }
  fillBudget -= length;
  std::vector<uint8_t> piece(std::min(length, pieceBytes), value);
  for (uint64_t done = 0; done < length && !out.failed(); done += piece.size())
    put(out, device, address + done, ArrayRef(piece).take_front(std::min(length - done, pieceBytes)));
}

void NvdlaMemory::notTold(ImportOutput &out, uint16_t device, uint64_t address, uint64_t length) {
  out.mapMemory(device, address, length);
  Packet packet;
  packet.kind = PacketKind::MemoryWrite;
  packet.flags = NotCaptured;
  packet.device = device;
  packet.address = address;
  PacketExtra extra;
  extra.length = length;
  out.append(packet, extra);
}

std::unique_ptr<LineReader> NvdlaMemory::open(ImportOutput &out, StringRef file) {
  if (!openCompanion) {
    out.warn("missing-file", "'" + file.take_front(80).str() + "' is not here");
    return nullptr;
  }
  Expected<std::unique_ptr<LineReader>> lines = openCompanion(file);
  if (lines)
    return std::move(*lines);
  Failure failure = toFailure(lines.takeError());
  out.warn("missing-file", failure.message + " (" + failure.where + ")");
  return nullptr;
}

void NvdlaMemory::load(ImportOutput &out, uint16_t device, uint64_t address, uint64_t length,
                       StringRef file) {
  images.erase(address);
  std::unique_ptr<LineReader> lines = open(out, file);
  if (!lines) {
    if (length)
      notTold(out, device, address, length);
    else
      out.loss(LossCause::Source, 1);
    return;
  }
  Image image;
  bool contiguous = true;
  uint64_t most = length ? length : maxBytes;
  auto take = [&](uint64_t offset, ArrayRef<uint8_t> bytes) {
    if (offset >= most || out.failed())
      return !out.failed();
    bytes = bytes.take_front(most - offset);
    contiguous &= offset == image.length;
    image.length += bytes.size();
    image.crc = crc32(image.crc, bytes);
    put(out, device, address + offset, bytes);
    return true;
  };
  auto bad = [&](uint64_t line, const char *why) {
    out.warn("bad-data", file.take_front(80).str() + ":" + std::to_string(line) + ": " + why);
  };
  if (Error error = readMemoryImage(*lines, take, bad))
    out.warn("missing-file", toFailure(std::move(error)).message);
  if (length && image.length < length)
    out.warn("short-file", "'" + file.take_front(80).str() + "' has " + std::to_string(image.length) +
                               " of " + std::to_string(length) + " bytes");
  if (contiguous && images.size() < maxImages)
    images[address] = image;
}

uint64_t NvdlaMemory::acquire(ImportOutput &out, uint16_t device, uint64_t address, uint64_t length,
                              const std::vector<uint8_t> *content) {
  out.mapMemory(device, address, length);
  Packet packet;
  packet.kind = PacketKind::Acquire;
  packet.device = device;
  packet.address = address;
  PacketExtra extra;
  extra.length = length;
  if (content)
    return out.append(packet, extra, *content);
  packet.flags = NotCaptured;
  return out.append(packet, extra);
}

void NvdlaMemory::oracle(ImportOutput &out, uint16_t device, uint64_t address, uint64_t length, uint64_t link,
                         StringRef name) {
  Packet packet;
  packet.kind = PacketKind::Oracle;
  packet.device = device;
  packet.address = address;
  PacketExtra extra;
  extra.length = length;
  extra.link = link;
  out.append(packet, extra, name);
}

void NvdlaMemory::checkFile(ImportOutput &out, uint16_t device, uint64_t address, uint64_t length,
                            StringRef file, StringRef name) {
  std::unique_ptr<LineReader> lines = length <= maxGoldenBytes ? open(out, file) : nullptr;
  if (!lines) {
    oracle(out, device, address, length, acquire(out, device, address, length, nullptr), name);
    return;
  }
  std::vector<uint8_t> golden(length);
  uint64_t covered = 0;
  auto take = [&](uint64_t offset, ArrayRef<uint8_t> bytes) {
    if (offset < length) {
      bytes = bytes.take_front(length - offset);
      std::copy(bytes.begin(), bytes.end(), golden.begin() + ptrdiff_t(offset));
      covered += bytes.size();
    }
    return true;
  };
  bool whole = true;
  auto bad = [&](uint64_t line, const char *why) {
    whole = false;
    out.warn("bad-data", file.take_front(80).str() + ":" + std::to_string(line) + ": " + why);
  };
  if (Error error = readMemoryImage(*lines, take, bad)) {
    out.warn("missing-file", toFailure(std::move(error)).message);
    whole = false;
  }
  if (covered < length) {
    out.warn("short-file", "the golden content has " + std::to_string(covered) + " of " +
                               std::to_string(length) + " bytes");
    whole = false;
  }
  if (whole && all_of(golden, [](uint8_t byte) { return byte == 0; }))
    out.warn("vacuous-oracle", "the golden content is zeros: a device that does nothing passes");
  oracle(out, device, address, length, acquire(out, device, address, length, whole ? &golden : nullptr),
         name);
}

void NvdlaMemory::checkCrc(ImportOutput &out, uint16_t device, uint64_t address, uint64_t length,
                           uint32_t crc, StringRef name) {
  bool looked = length <= crcBudget;
  if (looked)
    crcBudget -= length;
  if (looked && crcOfZeros(length) == crc)
    out.warn("vacuous-oracle", "the golden CRC is that of zeros: a device that does nothing passes");
  auto image = images.find(address);
  if (image != images.end() && image->second.length == length && image->second.crc == crc)
    out.warn("vacuous-oracle",
             "the golden CRC is that of what the trace itself put there: a device that does nothing passes");
  std::string text = (name + " crc32=0x" + hexText(crc, 8)).str();
  oracle(out, device, address, length, acquire(out, device, address, length, nullptr), text);
}

} // namespace tapeback
