// Parts of the index: made, found, checked.
#include "format/Index.h"

#include "format/Failure.h"
#include "llvm/ADT/STLExtras.h"

namespace tapeback {

namespace {

constexpr size_t partRows = 1u << 14; ///< Rows a part is written with; any number up to maxPartRows is read.
constexpr unsigned kinds = 5;         ///< Known kinds are below this, and above 0.

size_t columnsOf(PartKind kind) {
  switch (kind) {
  case PartKind::Windows: return 5;
  case PartKind::PacketBlocks: return 3;
  case PartKind::Blobs: return 5;
  case PartKind::Keyframes: return 2;
  }
  return 0;
}

/// The first row's key, as PartPlace has it.
std::pair<uint64_t, uint64_t> keyOf(const PartTable &table, size_t row) {
  if (table.kind == PartKind::Blobs)
    return {table.columns[0][row], table.columns[1][row]};
  return {0, table.columns[0][row]};
}

template <typename Row>
llvm::Error writeParts(PartKind kind, const std::vector<Row> &rows, std::vector<PartPlace> &places,
                       llvm::function_ref<void(const Row &, uint64_t *)> fill,
                       llvm::function_ref<llvm::Expected<uint64_t>(const PartTable &)> emit) {
  for (size_t first = 0; first < rows.size(); first += partRows) {
    const size_t count = std::min(partRows, rows.size() - first);
    PartTable table;
    table.kind = kind;
    table.first = first;
    table.columns.assign(columnsOf(kind), std::vector<uint64_t>(count));
    for (size_t i = 0; i < count; ++i) {
      uint64_t cells[5] = {};
      fill(rows[first + i], cells);
      for (size_t column = 0; column < table.columns.size(); ++column)
        table.columns[column][i] = cells[column];
    }
    llvm::Expected<uint64_t> offset = emit(table);
    if (!offset)
      return offset.takeError();
    const auto [hi, lo] = keyOf(table, 0);
    places.push_back({kind, *offset, first, static_cast<uint32_t>(count), hi, lo});
  }
  return llvm::Error::success();
}

} // namespace

llvm::Expected<std::vector<PartPlace>>
writeIndex(IndexRows &rows, llvm::function_ref<llvm::Expected<uint64_t>(const PartTable &)> emit) {
  llvm::sort(rows.blobs, [](const BlobRow &a, const BlobRow &b) { return a.id < b.id; });
  std::vector<PartPlace> places;
  auto window = [](const WindowInfo &row, uint64_t *cells) {
    cells[0] = row.firstPacket, cells[1] = row.packetCount, cells[2] = row.firstTime, cells[3] = row.lastTime;
    cells[4] = row.quiescent;
  };
  auto packetBlock = [](const PacketBlockRow &row, uint64_t *cells) {
    cells[0] = row.firstPacket, cells[1] = row.packetCount, cells[2] = row.offset;
  };
  auto blob = [](const BlobRow &row, uint64_t *cells) {
    cells[0] = row.id.hi, cells[1] = row.id.lo, cells[2] = row.offset, cells[3] = row.piece,
    cells[4] = row.bytes;
  };
  auto keyframe = [](const KeyframeRow &row, uint64_t *cells) {
    cells[0] = row.packet, cells[1] = row.offset;
  };
  if (llvm::Error error = writeParts<WindowInfo>(PartKind::Windows, rows.windows, places, window, emit))
    return error;
  if (llvm::Error error =
          writeParts<PacketBlockRow>(PartKind::PacketBlocks, rows.packetBlocks, places, packetBlock, emit))
    return error;
  if (llvm::Error error = writeParts<BlobRow>(PartKind::Blobs, rows.blobs, places, blob, emit))
    return error;
  if (llvm::Error error =
          writeParts<KeyframeRow>(PartKind::Keyframes, rows.keyframes, places, keyframe, emit))
    return error;
  return places;
}

llvm::Error IndexReader::badIndex(llvm::StringRef what, size_t part) const {
  return failTape("bad-index", what.str(),
                  part < places.size() ? source.where(places[part].offset) : source.input().path(),
                  "Run: tapeback recover TAPE -o OUT");
}

llvm::ArrayRef<PartPlace> IndexReader::partsOf(PartKind kind) const {
  const auto number = static_cast<size_t>(kind);
  return llvm::ArrayRef<PartPlace>(places).slice(firstPart[number],
                                                 firstPart[number + 1] - firstPart[number]);
}

llvm::Error IndexReader::setParts(std::vector<PartPlace> parts, const TapeSummary &summary) {
  // Kinds of later versions are of no use here.
  llvm::erase_if(parts, [](const PartPlace &place) {
    return place.kind < PartKind::Windows || static_cast<unsigned>(place.kind) >= kinds;
  });
  places = std::move(parts);
  cache.clear();
  cached.assign(places.size(), cache.end());
  std::fill(std::begin(counts), std::end(counts), 0);
  std::fill(std::begin(firstPart), std::end(firstPart), 0);
  for (size_t i = 0; i < places.size(); ++i) {
    const auto kind = static_cast<size_t>(places[i].kind);
    if (i != 0 && places[i].kind < places[i - 1].kind)
      return badIndex("the footer's list of index parts is not sorted", places.size());
    if (places[i].count == 0 || places[i].count > maxPartRows || places[i].first != counts[kind])
      return badIndex("the footer's list of index parts has a hole", places.size());
    if (i != 0 && places[i].kind == places[i - 1].kind &&
        std::pair(places[i].keyHi, places[i].keyLo) <= std::pair(places[i - 1].keyHi, places[i - 1].keyLo) &&
        places[i].kind != PartKind::Keyframes)
      return badIndex("the footer's list of index parts is not sorted by key", places.size());
    counts[kind] += places[i].count;
    for (size_t later = kind + 1; later < std::size(firstPart); ++later)
      firstPart[later] = i + 1;
  }
  auto count = [&](PartKind kind) { return counts[static_cast<size_t>(kind)]; };
  if (count(PartKind::Windows) != summary.windows || count(PartKind::Blobs) != summary.blobs ||
      count(PartKind::Keyframes) != summary.keyframes ||
      (count(PartKind::PacketBlocks) == 0) != (summary.packets == 0))
    return badIndex("the index does not have as many rows as the footer says", places.size());
  return llvm::Error::success();
}

llvm::Expected<const PartTable *> IndexReader::load(size_t part) {
  if (cached[part] != cache.end()) {
    cache.splice(cache.begin(), cache, cached[part]);
    return &cache.front().table;
  }
  const PartPlace &place = places[part];
  if (llvm::Error error = source.read(place.offset, block, BlockType::Index))
    return error;
  llvm::Expected<PartTable> table = decodePart(block.raw, source.where(block), columnsOf(place.kind));
  if (!table)
    return table.takeError();
  if (table->kind != place.kind || table->first != place.first || table->rows() != place.count ||
      keyOf(*table, 0) != std::pair(place.keyHi, place.keyLo))
    return badIndex("a part of the index is not what the footer says", part);
  for (size_t row = 1; row < table->rows(); ++row) {
    // Keyframes of several devices may be at one packet.
    const bool ordered = place.kind == PartKind::Keyframes ? keyOf(*table, row - 1) <= keyOf(*table, row)
                                                           : keyOf(*table, row - 1) < keyOf(*table, row);
    if (!ordered)
      return badIndex("a part of the index is not sorted", part);
  }
  if (cache.size() >= maxParts) {
    cached[cache.back().part] = cache.end();
    cache.pop_back();
  }
  cache.push_front({part, std::move(*table)});
  cached[part] = cache.begin();
  return &cache.front().table;
}

llvm::Error IndexReader::checkPart(size_t part) {
  return load(part).takeError();
}

llvm::Expected<std::pair<const PartTable *, size_t>> IndexReader::row(PartKind kind, uint64_t n) {
  const llvm::ArrayRef<PartPlace> parts = partsOf(kind);
  const PartPlace *after =
      llvm::upper_bound(parts, n, [](uint64_t key, const PartPlace &place) { return key < place.first; });
  if (after == parts.begin() || n - std::prev(after)->first >= std::prev(after)->count)
    return badIndex("the index has no row " + std::to_string(n), places.size());
  const PartPlace *place = std::prev(after);
  llvm::Expected<const PartTable *> table = load(numberOf(place));
  if (!table)
    return table.takeError();
  return std::pair(*table, static_cast<size_t>(n - place->first));
}

llvm::Expected<std::pair<const PartTable *, size_t>> IndexReader::rowByKey(PartKind kind, uint64_t key) {
  const llvm::ArrayRef<PartPlace> parts = partsOf(kind);
  const PartPlace *after = llvm::upper_bound(
      parts, key, [](uint64_t wanted, const PartPlace &place) { return wanted < place.keyLo; });
  if (after == parts.begin())
    return badIndex("the index has no row for packet " + std::to_string(key), places.size());
  llvm::Expected<const PartTable *> table = load(numberOf(std::prev(after)));
  if (!table)
    return table.takeError();
  const std::vector<uint64_t> &keys = (*table)->columns[0];
  const auto next = llvm::upper_bound(keys, key);
  return std::pair(*table, static_cast<size_t>(next - keys.begin()) - 1);
}

static WindowInfo windowAt(const PartTable &table, size_t row) {
  const auto &columns = table.columns;
  return {columns[0][row], columns[1][row], columns[2][row], columns[3][row], columns[4][row] != 0};
}

static PacketBlockRow packetBlockAt(const PartTable &table, size_t row) {
  return {table.columns[0][row], table.columns[1][row], table.columns[2][row]};
}

llvm::Expected<WindowInfo> IndexReader::window(uint64_t n) {
  auto found = row(PartKind::Windows, n);
  if (!found)
    return found.takeError();
  return windowAt(*found->first, found->second);
}

llvm::Expected<uint64_t> IndexReader::windowOfPacket(uint64_t packet) {
  auto found = rowByKey(PartKind::Windows, packet);
  if (!found)
    return found.takeError();
  const WindowInfo window = windowAt(*found->first, found->second);
  if (packet - window.firstPacket >= window.packetCount)
    return badIndex("packet " + std::to_string(packet) + " is in no window", places.size());
  return found->first->first + found->second;
}

llvm::Expected<PacketBlockRow> IndexReader::packetBlock(uint64_t n) {
  auto found = row(PartKind::PacketBlocks, n);
  if (!found)
    return found.takeError();
  return packetBlockAt(*found->first, found->second);
}

llvm::Expected<PacketBlockRow> IndexReader::blockOfPacket(uint64_t packet) {
  auto found = rowByKey(PartKind::PacketBlocks, packet);
  if (!found)
    return found.takeError();
  const PacketBlockRow block = packetBlockAt(*found->first, found->second);
  if (packet - block.firstPacket >= block.packetCount)
    return badIndex("packet " + std::to_string(packet) + " is in no block", places.size());
  return block;
}

llvm::Expected<KeyframeRow> IndexReader::keyframe(uint64_t n) {
  auto found = row(PartKind::Keyframes, n);
  if (!found)
    return found.takeError();
  return KeyframeRow{found->first->columns[0][found->second], found->first->columns[1][found->second]};
}

llvm::Expected<std::optional<BlobRow>> IndexReader::blob(BlobId id) {
  const llvm::ArrayRef<PartPlace> parts = partsOf(PartKind::Blobs);
  const PartPlace *after = llvm::upper_bound(parts, id, [](BlobId wanted, const PartPlace &place) {
    return wanted < BlobId{place.keyHi, place.keyLo};
  });
  if (after == parts.begin())
    return std::optional<BlobRow>();
  llvm::Expected<const PartTable *> loaded = load(numberOf(std::prev(after)));
  if (!loaded)
    return loaded.takeError();
  const auto &columns = (*loaded)->columns;
  // Ids of equal high half are next to each other, and there are hardly ever two.
  size_t row = static_cast<size_t>(llvm::lower_bound(columns[0], id.hi) - columns[0].begin());
  for (; row < columns[0].size() && columns[0][row] == id.hi; ++row) {
    if (columns[1][row] != id.lo)
      continue;
    if (columns[3][row] > UINT32_MAX)
      return badIndex("a row of the blob index is out of bounds", numberOf(std::prev(after)));
    return std::optional<BlobRow>(
        {id, columns[2][row], columns[4][row], static_cast<uint32_t>(columns[3][row])});
  }
  return std::optional<BlobRow>();
}

} // namespace tapeback
