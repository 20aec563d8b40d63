// Opening: header first (is it ours at all?), then the tail (is it whole?), then the footer.
#include "format/TapeFile.h"

#include "format/Failure.h"
#include <cstring>

namespace tapeback {

const char *TapeTables::append(TableRows rows, uint64_t blockRawBytes) {
  rawBytes += blockRawBytes;
  if (rawBytes > maxTableBytes)
    return "the tables of this tape are larger than they may be";
  if (rows.firstDevice != devices.size() || rows.firstSpace != spaces.size() ||
      rows.firstClock != clocks.size())
    return "the rows of this table do not follow those before";
  std::move(rows.devices.begin(), rows.devices.end(), std::back_inserter(devices));
  std::move(rows.spaces.begin(), rows.spaces.end(), std::back_inserter(spaces));
  std::move(rows.clocks.begin(), rows.clocks.end(), std::back_inserter(clocks));
  return nullptr;
}

static llvm::Error unfinished(const InputFile &file) {
  return failTape(
      "unfinished",
      "the tape has no end: its writer was killed or still runs, or the file was cut or appended to",
      file.path(), "Run: tapeback recover TAPE -o OUT");
}

static llvm::Expected<Tail> readTail(const InputFile &file, const FileHeader &header) {
  Tail tail;
  if (file.size() < sizeof(FileHeader) + sizeof(Tail))
    return unfinished(file);
  const uint64_t offset = file.size() - sizeof(Tail);
  if (llvm::Error error = file.read(offset, {reinterpret_cast<uint8_t *>(&tail), sizeof(tail)}))
    return error;
  if (tail.magic != tailMagic)
    return unfinished(file);
  if (tail.check != checkOf(tail, header.tapeId) || tail.fileBytes != file.size())
    return failTape("damaged-footer", "the last bytes of the tape do not hold",
                    file.path() + ": offset " + std::to_string(offset), "Run: tapeback recover TAPE -o OUT");
  return tail;
}

llvm::Expected<TapeFile> TapeFile::open(llvm::StringRef path, uint64_t maxRaw, bool verify) {
  llvm::Expected<InputFile> file = InputFile::open(path);
  if (!file)
    return file.takeError();
  uint8_t bytes[sizeof(FileHeader)];
  llvm::Expected<size_t> got = file->readSome(0, bytes);
  if (!got)
    return got.takeError();
  llvm::Expected<FileHeader> header = parseFileHeader({bytes, *got}, path);
  if (!header)
    return header.takeError();
  llvm::Expected<Tail> tail = readTail(*file, *header);
  if (!tail)
    return tail.takeError();

  BlockSource source(std::move(*file), tapeTagOf(header->tapeId), maxRaw, verify);
  ReadBlock block;
  if (llvm::Error error = source.read(tail->footerOffset, block, BlockType::Footer))
    return error;
  if (block.end() != source.input().size() - sizeof(Tail))
    return failTape("trailing-bytes", "there are bytes between the footer and the end of the tape",
                    source.where(block.end()), "Run: tapeback recover TAPE -o OUT");
  llvm::Expected<FooterRecord> footer = decodeFooter(block.raw, source.where(block));
  if (!footer)
    return footer.takeError();
  return TapeFile{*header, std::move(source), tail->footerOffset, std::move(*footer)};
}

} // namespace tapeback
