// Any bytes as YAML: through the guard into LLVM's YAML I/O, mapped into every shape that it has.
#include "format/Failure.h"
#include "format/Text.h"
#include <map>

namespace {
struct Anything {
  std::vector<std::string> list;
  std::vector<std::vector<std::string>> lists;
  std::map<std::string, std::string> words;
  std::string word;
  bool flag = false;
};
} // namespace

LLVM_YAML_IS_STRING_MAP(std::string)
LLVM_YAML_IS_SEQUENCE_VECTOR(std::vector<std::string>)
LLVM_YAML_IS_SEQUENCE_VECTOR(Anything)

template <>
struct llvm::yaml::MappingTraits<Anything> {
  static void mapping(IO &io, Anything &value) {
    io.mapOptional("list", value.list);
    io.mapOptional("lists", value.lists);
    io.mapOptional("words", value.words);
    io.mapOptional("word", value.word);
    io.mapOptional("flag", value.flag);
  }
};

template <typename T>
static void readAs(llvm::StringRef text) {
  llvm::Error error = tapeback::withYaml(text, "fuzz", nullptr,
                                         [](llvm::yaml::Input &input, tapeback::YamlComplaints &complaints) {
                                           T value{};
                                           input >> value;
                                           if (const llvm::yaml::Node *node = input.getCurrentNode())
                                             complaints.add(node->getSourceRange(), "a remark");
                                         });
  if (error)
    tapeback::toFailure(std::move(error));
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  readAs<Anything>(text);
  readAs<std::vector<std::string>>(text);
  readAs<std::vector<Anything>>(text);
  return 0;
}
