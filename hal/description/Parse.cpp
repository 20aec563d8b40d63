// From YAML text to raw::Document, through LLVM's YAML I/O. Unknown and missing keys and wrong shapes are
// found here; what the values mean is Resolve.cpp's.
#include "hal/description/Raw.h"

#include "format/Failure.h"
#include "llvm/Support/raw_ostream.h"

LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::Text)
LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::Field)
LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::Condition)
LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::Register)
LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::Transfer)
LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::Activity)
LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::Window)
LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::Step)
LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::Fingerprint)
LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::Interrupt)
LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::raw::Counter)

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
struct MappingTraits<raw::Window> {
  static void mapping(IO &io, raw::Window &window) {
    io.mapRequired("name", window.name);
    io.mapOptional("base", window.base);
    io.mapRequired("size", window.size);
    io.mapOptional("read-back", window.readBack);
    io.mapOptional("max-transfer", window.maxTransfer);
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
struct MappingTraits<raw::Counter> {
  static void mapping(IO &io, raw::Counter &counter) {
    io.mapRequired("name", counter.name);
    io.mapRequired("register", counter.reg);
    io.mapOptional("unit", counter.unit);
    io.mapOptional("class", counter.cls);
    io.mapOptional("width-bits", counter.widthBits);
    io.mapOptional("exact", counter.exact);
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
    io.mapOptional("windows", document.windows);
    io.mapOptional("activities", document.activities);
    io.mapOptional("interrupts", document.interrupts);
    io.mapOptional("fingerprint", document.fingerprint);
    io.mapOptional("restore", document.restore);
    io.mapOptional("post-mortem", document.postMortem);
    io.mapOptional("counters", document.counters);
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
