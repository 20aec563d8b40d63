// From YAML text to raw::Document, through LLVM's YAML I/O. Unknown and missing keys and wrong shapes are
// found here; what the values mean is Resolve.cpp's.
#include "hal/description/Raw.h"

#include "format/Failure.h"
#include "llvm/Support/raw_ostream.h"

LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::Text)
LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::Field)
LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::Condition)
LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::Flow)
LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::Register)
LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::Transfer)
LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::Activity)
LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::Window)
LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::Step)
LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::Fingerprint)
LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::Interrupt)
LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::Range)
LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::Counter)
LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::EntryField)
LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::EntryTransfer)
LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::Form)
LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::Layout)
LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::Queue)
LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::Ring)

namespace tapeback::raw {

static llvm::SMRange placeOf(llvm::yaml::IO &io) {
  const llvm::yaml::Node *node = static_cast<llvm::yaml::Input &>(io).getCurrentNode();
  return node ? node->getSourceRange() : llvm::SMRange();
}

/// YAML I/O finds this by argument-dependent lookup: the value as ever, and its place beside it.
template <typename T>
static void yamlize(llvm::yaml::IO &io, Located<T> &located, bool required,
                    llvm::yaml::EmptyContext &context) {
  located.where = placeOf(io);
  llvm::yaml::yamlize(io, located.value, required, context);
}

} // namespace tapeback::raw

namespace llvm::yaml {
namespace raw = tapeback::raw;

// Descriptions are only read. The writing halves exist because the traits need them, and write what would be
// read back.
template <>
struct ScalarTraits<raw::Numeral> {
  static void output(const raw::Numeral &number, void *, raw_ostream &os) { os << number.value; }
  static StringRef input(StringRef text, void *context, raw::Numeral &number) {
    Expected<uint64_t> value = tapeback::parseNumber(text);
    if (!value) { // The message must outlive this call: it is kept where the context points.
      auto &message = *static_cast<std::string *>(context);
      tapeback::Failure failure = tapeback::toFailure(value.takeError());
      message = failure.message + (failure.hint.empty() ? "" : ": " + failure.hint);
      return message;
    }
    number.value = *value;
    return {};
  }
  static QuotingType mustQuote(StringRef) { return QuotingType::None; }
};

template <>
struct MappingTraits<raw::Field> {
  static void mapping(IO &io, raw::Field &field) {
    io.mapRequired("name", field.name);
    io.mapRequired("bits", field.bits);
    io.mapOptional("doc", field.doc);
  }
};
template <>
struct MappingTraits<raw::Condition> {
  static void mapping(IO &io, raw::Condition &condition) {
    condition.where = raw::placeOf(io);
    io.mapRequired("register", condition.reg);
    io.mapOptional("mask", condition.mask);
    io.mapOptional("value", condition.value);
    io.mapOptional("any", condition.any);
  }
};
template <>
struct MappingTraits<raw::Flow> {
  static void mapping(IO &io, raw::Flow &flow) {
    flow.where = raw::placeOf(io);
    io.mapOptional("register", flow.reg);
    io.mapOptional("bits", flow.bits);
    io.mapOptional("layout", flow.layout);
    io.mapOptional("field", flow.field);
  }
};
template <>
struct MappingTraits<raw::Register> {
  static void mapping(IO &io, raw::Register &reg) {
    io.mapRequired("name", reg.name);
    io.mapOptional("space", reg.space);
    io.mapRequired("offset", reg.offset);
    io.mapOptional("width", reg.width);
    io.mapOptional("access", reg.access);
    io.mapOptional("class", reg.cls);
    io.mapOptional("policy", reg.policy);
    io.mapOptional("compare-mask", reg.compareMask);
    io.mapOptional("poll-mask", reg.pollMask);
    io.mapOptional("flows-into", reg.flowsInto);
    io.mapOptional("reset", reg.reset);
    io.mapOptional("fields", reg.fields);
    io.mapOptional("alias-of", reg.aliasOf);
    io.mapOptional("doc", reg.doc);
  }
};
template <>
struct MappingTraits<raw::Transfer> {
  static void mapping(IO &io, raw::Transfer &transfer) {
    io.mapOptional("when", transfer.when);
    io.mapRequired("direction", transfer.direction);
    io.mapRequired("host-address", transfer.hostAddress);
    io.mapRequired("device-address", transfer.deviceAddress);
    io.mapRequired("count", transfer.count);
    io.mapOptional("window", transfer.window);
  }
};
template <>
struct MappingTraits<raw::Activity> {
  static void mapping(IO &io, raw::Activity &activity) {
    io.mapRequired("name", activity.name);
    io.mapRequired("starts", activity.starts);
    io.mapRequired("done", activity.done);
    io.mapOptional("transfers", activity.transfers);
  }
};
template <>
struct MappingTraits<raw::Port> {
  static void mapping(IO &io, raw::Port &port) {
    io.mapRequired("address", port.address);
    io.mapRequired("data", port.data);
    io.mapOptional("usable", port.usable);
  }
};
template <>
struct MappingTraits<raw::Window> {
  static void mapping(IO &io, raw::Window &window) {
    io.mapRequired("name", window.name);
    io.mapOptional("base", window.base);
    io.mapRequired("size", window.size);
    io.mapOptional("read-back", window.readBack);
    io.mapOptional("max-transfer", window.maxTransfer);
    io.mapOptional("port", window.port);
    io.mapOptional("reset", window.reset);
    io.mapOptional("doc", window.doc);
  }
};
template <>
struct MappingTraits<raw::Step> {
  static void mapping(IO &io, raw::Step &step) {
    step.where = raw::placeOf(io);
    io.mapOptional("register", step.reg);
    io.mapOptional("window", step.window);
  }
};
template <>
struct MappingTraits<raw::Fingerprint> {
  static void mapping(IO &io, raw::Fingerprint &entry) {
    io.mapRequired("register", entry.reg);
    io.mapOptional("mask", entry.mask);
    io.mapOptional("value", entry.value);
  }
};
template <>
struct MappingTraits<raw::Interrupt> {
  static void mapping(IO &io, raw::Interrupt &interrupt) {
    io.mapRequired("vector", interrupt.vector);
    io.mapRequired("name", interrupt.name);
    io.mapOptional("cause", interrupt.cause);
  }
};
template <>
struct MappingTraits<raw::Range> {
  static void mapping(IO &io, raw::Range &range) {
    io.mapRequired("name", range.name);
    io.mapOptional("space", range.space);
    io.mapRequired("first", range.first);
    io.mapRequired("last", range.last);
  }
};
template <>
struct MappingTraits<raw::Counter> {
  static void mapping(IO &io, raw::Counter &counter) {
    io.mapRequired("name", counter.name);
    io.mapOptional("register", counter.reg);
    io.mapOptional("register-high", counter.high);
    io.mapOptional("layout", counter.layout);
    io.mapOptional("field", counter.field);
    io.mapOptional("unit", counter.unit);
    io.mapOptional("class", counter.cls);
    io.mapOptional("width-bits", counter.widthBits);
    io.mapOptional("exact", counter.exact);
  }
};
template <>
struct MappingTraits<raw::EntryField> {
  static void mapping(IO &io, raw::EntryField &field) {
    io.mapRequired("name", field.name);
    io.mapRequired("offset", field.offset);
    io.mapOptional("width", field.width);
    io.mapOptional("bits", field.bits);
    io.mapOptional("signed", field.isSigned);
    io.mapOptional("address", field.address);
    io.mapOptional("hex", field.hex);
    io.mapOptional("policy", field.policy);
    io.mapOptional("doc", field.doc);
  }
};
template <>
struct MappingTraits<raw::Opcode> {
  static void mapping(IO &io, raw::Opcode &opcode) {
    opcode.where = raw::placeOf(io);
    io.mapRequired("offset", opcode.offset);
    io.mapOptional("width", opcode.width);
    io.mapOptional("bits", opcode.bits);
  }
};
template <>
struct MappingTraits<raw::EntryCondition> {
  static void mapping(IO &io, raw::EntryCondition &condition) {
    io.mapRequired("field", condition.field);
    io.mapOptional("mask", condition.mask);
    io.mapRequired("value", condition.value);
  }
};
template <>
struct MappingTraits<raw::Pages> {
  static void mapping(IO &io, raw::Pages &pages) {
    io.mapRequired("second", pages.second);
    io.mapRequired("size", pages.size);
  }
};
template <>
struct MappingTraits<raw::EntryTransfer> {
  static void mapping(IO &io, raw::EntryTransfer &transfer) {
    io.mapOptional("when", transfer.when);
    io.mapRequired("direction", transfer.direction);
    io.mapRequired("host-address", transfer.hostAddress);
    io.mapOptional("row-bytes", transfer.rowBytes);
    io.mapOptional("plus", transfer.plus);
    io.mapOptional("times", transfer.times);
    io.mapOptional("pages", transfer.pages);
    io.mapOptional("content", transfer.content);
    io.mapOptional("rows", transfer.rows);
    io.mapOptional("host-stride", transfer.hostStride);
    io.mapOptional("device-address", transfer.deviceAddress);
    io.mapOptional("device-stride", transfer.deviceStride);
    io.mapOptional("window", transfer.window);
  }
};
template <>
struct MappingTraits<raw::Fence> {
  static void mapping(IO &io, raw::Fence &fence) {
    io.mapRequired("address", fence.address);
    io.mapRequired("value", fence.value);
  }
};
template <>
struct MappingTraits<raw::Chain> {
  static void mapping(IO &io, raw::Chain &chain) {
    io.mapRequired("address", chain.address);
    io.mapRequired("layout", chain.layout);
    io.mapOptional("last", chain.last);
    io.mapOptional("limit", chain.limit);
  }
};
template <>
struct MappingTraits<raw::Sync> {
  static void mapping(IO &io, raw::Sync &sync) {
    io.mapRequired("kind", sync.kind);
    io.mapOptional("on", sync.on);
  }
};
template <>
struct MappingTraits<raw::Creates> {
  static void mapping(IO &io, raw::Creates &creates) {
    io.mapRequired("kind", creates.kind);
    io.mapRequired("number", creates.number);
    io.mapRequired("base", creates.base);
    io.mapRequired("size", creates.size);
    io.mapOptional("size-plus", creates.sizePlus);
  }
};
template <>
struct MappingTraits<raw::Deletes> {
  static void mapping(IO &io, raw::Deletes &deletes) {
    io.mapRequired("kind", deletes.kind);
    io.mapRequired("number", deletes.number);
  }
};
template <>
struct MappingTraits<raw::Completes> {
  static void mapping(IO &io, raw::Completes &completes) {
    io.mapRequired("queue", completes.queue);
    io.mapRequired("tag", completes.tag);
    io.mapRequired("phase", completes.phase);
    io.mapOptional("success", completes.success);
  }
};
/// Of a form, or of a layout that has only one: the keys are the same.
static void mapMeaning(IO &io, raw::EntryMeaning &meaning) {
  io.mapOptional("fields", meaning.fields);
  io.mapOptional("transfers", meaning.transfers);
  io.mapOptional("fence", meaning.fence);
  io.mapOptional("chain", meaning.chain);
  io.mapOptional("sync", meaning.sync);
  io.mapOptional("creates", meaning.creates);
  io.mapOptional("deletes", meaning.deletes);
}
template <>
struct MappingTraits<raw::Form> {
  static void mapping(IO &io, raw::Form &form) {
    io.mapRequired("name", form.name);
    io.mapRequired("opcode", form.opcode);
    mapMeaning(io, form.meaning);
    io.mapOptional("doc", form.doc);
  }
};
template <>
struct MappingTraits<raw::Layout> {
  static void mapping(IO &io, raw::Layout &layout) {
    io.mapRequired("name", layout.name);
    io.mapRequired("size", layout.size);
    io.mapOptional("opcode", layout.opcode);
    io.mapOptional("tag", layout.tag);
    io.mapOptional("completes", layout.completes);
    mapMeaning(io, layout.meaning);
    io.mapOptional("forms", layout.forms);
    io.mapOptional("doc", layout.doc);
  }
};
static void mapRing(IO &io, raw::Ring &ring) {
  io.mapRequired("name", ring.name);
  io.mapOptional("base", ring.base);
  io.mapOptional("base-high", ring.baseHigh);
  io.mapOptional("size", ring.size);
  io.mapOptional("size-bits", ring.sizeBits);
  io.mapOptional("size-plus", ring.sizePlus);
  io.mapOptional("number", ring.number);
  io.mapRequired("doorbell", ring.doorbell);
  io.mapRequired("layout", ring.layout);
  io.mapOptional("doc", ring.doc);
}
template <>
struct MappingTraits<raw::Ring> {
  static void mapping(IO &io, raw::Ring &ring) { mapRing(io, ring); }
};
template <>
struct MappingTraits<raw::Queue> {
  static void mapping(IO &io, raw::Queue &queue) {
    mapRing(io, queue.ring);
    io.mapOptional("head", queue.head);
    io.mapOptional("tail", queue.tail);
    io.mapOptional("done", queue.done);
    io.mapOptional("rewind", queue.rewind);
  }
};
template <>
struct MappingTraits<raw::Document> {
  static void mapping(IO &io, raw::Document &document) {
    io.mapRequired("tapeback-description", document.grammar);
    io.mapRequired("name", document.name);
    io.mapOptional("version", document.version);
    io.mapOptional("doc", document.doc);
    io.mapOptional("spaces", document.spaces);
    io.mapOptional("dma-mask", document.dmaMask);
    io.mapOptional("reset-method", document.resetMethod);
    io.mapOptional("registers", document.registers);
    io.mapOptional("forbidden", document.forbidden);
    io.mapOptional("windows", document.windows);
    io.mapOptional("activities", document.activities);
    io.mapOptional("interrupts", document.interrupts);
    io.mapOptional("fingerprint", document.fingerprint);
    io.mapOptional("restore", document.restore);
    io.mapOptional("post-mortem", document.postMortem);
    io.mapOptional("counters", document.counters);
    io.mapOptional("layouts", document.layouts);
    io.mapOptional("queues", document.queues);
    io.mapOptional("completion-queues", document.completionQueues);
    io.mapOptional("idle", document.idle);
    io.mapOptional("resets", document.resets);
    io.mapOptional("hand-over", document.handOver);
  }
};
} // namespace llvm::yaml

namespace tapeback {

// Room for 65,536 registers with a line or two each.
static constexpr TextLimits descriptionLimits = {16u << 20, 16, size_t(1) << 21};

llvm::Expected<Description> parseDescription(llvm::StringRef yaml, llvm::StringRef name) {
  Description description;
  std::string numberMessage;
  llvm::Error error = withYaml(
      yaml, name, &numberMessage,
      [&](llvm::yaml::Input &input, YamlComplaints &complaints) {
        raw::Document document;
        input >> document;
        if (!input.error() && !complaints.any())
          description = resolveDescription(document, complaints);
      },
      descriptionLimits);
  if (!error) {
    description.index();
    return description;
  }
  Failure failure = toFailure(std::move(error));
  if (failure.code == "bad-yaml") {
    failure.code = "bad-description";
    failure.hint = "hal/description/README.md has the grammar";
  }
  return llvm::make_error<Failure>(std::move(failure));
}

} // namespace tapeback
