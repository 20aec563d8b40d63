# The messages inside a tape's blocks. SPEC.md says how blocks are framed, checked and ordered around them.
#
# Rules: fields are added at the end and never renumbered, deleted or given another meaning; a default describes what
# the oldest writer meant by leaving the field out; enumerations are plain integers, because a number that this
# version does not know must survive being read.
@0x823c86e627f2d1f3;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("tapeback::schema");

struct Fact {
  key @0 :Text;
  value @1 :Text;
}

struct Manifest {
  # Block type 1: the first block of every tape.
  facts @0 :List(Fact);      # Sorted by key.
  parentRoot @1 :Data;       # 32 bytes, or empty for an original.
  derivation @2 :Text;
}

struct Device {
  alias @0 :Text;
  targetUri @1 :Text;
  identity @2 :List(Fact);   # Sorted by key.
  description @3 :Text;      # The whole YAML text.
  descriptionName @4 :Text;
}

struct Clock {
  name @0 :Text;
  ticksPerSecond @1 :UInt64 = 1000000000;
}

struct Tables {
  # Block type 2 ("Device"): rows appended to the tape's three tables. `first…` is the id of the first row given here,
  # so that a lost block leaves a hole with known ids instead of shifting the ids after it.
  firstDevice @0 :UInt32;
  devices @1 :List(Device);
  firstSpace @2 :UInt32;
  spaces @3 :List(Text);
  firstClock @4 :UInt32;
  clocks @5 :List(Clock);
}

struct Column {
  # One column of integers; `data` as the encoding says (SPEC.md, "Columns"). Readers skip fields they do not know and
  # refuse encodings they do not know in fields they do.
  field @0 :UInt16;
  encoding @1 :UInt16;
  data @2 :Data;
}

struct Packets {
  # Block type 3. Each column belongs to one of five row sets; these are their sizes.
  packetCount @0 :UInt32;
  keyCount @1 :UInt32;       # Distinct shapes of packets in this block.
  extraCount @2 :UInt32;     # Packets that have an extra.
  payloadCount @3 :UInt32;   # Distinct payload ids in this block.
  windowCount @4 :UInt32;    # Windows that end in this block.
  columns @5 :List(Column);
}

struct Extent {
  space @0 :UInt16;
  address @1 :UInt64;
  length @2 :UInt64;
  contentHi @3 :UInt64;
  contentLo @4 :UInt64;
}

struct Register {
  space @0 :UInt16;
  width @1 :UInt8;
  address @2 :UInt64;
  value @3 :UInt64;
}

struct Keyframe {
  # Block type 4.
  packet @0 :UInt64;
  window @1 :UInt64;
  device @2 :UInt16;
  restorable @3 :Bool;
  reason @4 :Text;
  registers @5 :List(Register);
  memory @6 :List(Extent);
  mappings @7 :List(Extent);
  internal @8 :List(Extent);
}

struct BlobPiece {
  # A piece of a content. All pieces but the last of a content fill their block alone, and the next block of the file
  # holds the next piece.
  idHi @0 :UInt64;
  idLo @1 :UInt64;
  contentBytes @2 :UInt64;   # Of the whole content.
  offset @3 :UInt64;         # Of this piece in the content.
  length @4 :UInt32;         # Of this piece.
}

struct Blobs {
  # Block type 5. `bytes` holds the pieces one after another.
  pieces @0 :List(BlobPiece);
  bytes @1 :Data;
}

struct Trigger {
  # Block type 6.
  packet @0 :UInt64;
  text @1 :Text;
}

struct Signature {
  oracle @0 :Text;
  name @1 :Text;
  object @2 :Text;
  field @3 :Text;
  hasOffset @4 :Bool;
  offset @5 :UInt64;
  hasXorClass @6 :Bool;
  xorClass @7 :UInt64;
  marker @8 :Text;
  markerOccurrence @9 :UInt64;
  command @10 :UInt64;
}

struct Outcome {
  # Block type 7 ("Oracle"): the last block that the root hash covers.
  kind @0 :UInt8;
  signature @1 :Signature;   # Null if there was no failure.
  hasPacket @2 :Bool;
  packet @3 :UInt64;
  hasProgramExit @4 :Bool;
  programExit @5 :Int32;
  hasProgramSignal @6 :Bool;
  programSignal @7 :Int32;
  text @8 :Text;
}

struct IndexPart {
  # Block type 8. `kind` 1: windows, 2: packet blocks, 3: blobs (sorted by id), 4: keyframes.
  kind @0 :UInt16;
  first @1 :UInt64;          # Number of the first row.
  count @2 :UInt32;
  columns @3 :List(Column);
}

struct PartPlace {
  kind @0 :UInt16;
  offset @1 :UInt64;         # Of the part's block in the file.
  first @2 :UInt64;
  count @3 :UInt32;
  # The first row's key, for choosing a part without loading it: windows and packet blocks: the first packet (in
  # keyLo); blobs: the id; keyframes: the packet.
  keyHi @4 :UInt64;
  keyLo @5 :UInt64;
}

struct LossSum {
  cause @0 :UInt8;
  packets @1 :UInt64;        # All ones: at least one loss of this cause could not be counted.
}

struct Footer {
  # Block type 9: the last block.
  packets @0 :UInt64;
  windows @1 :UInt64;
  blobs @2 :UInt64;
  blobBytes @3 :UInt64;
  keyframes @4 :UInt64;
  firstTime @5 :UInt64;
  lastTime @6 :UInt64;
  root @7 :Data;             # 32 bytes.
  loss @8 :List(LossSum);    # Sorted by cause.
  tables @9 :List(UInt64);   # Offsets of the Device blocks, in order.
  triggers @10 :List(UInt64);# Offsets of the Trigger blocks, in order.
  outcome @11 :UInt64;       # Offset of the Oracle block.
  parts @12 :List(PartPlace);# Sorted by kind, then first.
}
