// The only way in for YAML and JSON. LLVM's parsers overflow the stack on deep nesting and crash on some
// aliases; here size, nesting, document count and errors are checked before a parser or a mapping sees the
// text.
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/SMLoc.h"
#include "llvm/Support/YAMLTraits.h"
#include <memory>

namespace tapeback {

/// What a text may cost. Memory used by a parser is proportional to nodes, not to bytes ("[,,,," or
/// "{}{}{}").
struct TextLimits {
  size_t maxBytes = 4u << 20;
  unsigned maxNesting = 32;          ///< Of sequences and mappings, however written. At most 256.
  size_t maxNodes = size_t(1) << 20; ///< Scalars, sequences and mappings; a JSON object counts as 16.
};

/// Reads a whole file of at most `limits.maxBytes` (special files and directories are refused).
llvm::Expected<std::string> readTextFile(llvm::StringRef path, TextLimits limits = {});

/// Parses one JSON document. Errors are Usage failures with `name:line:column`.
llvm::Expected<llvm::json::Value> parseJson(llvm::StringRef text, llvm::StringRef name,
                                            TextLimits limits = {});

/// Checks `text` (size, nesting, exactly one document, no aliases, UTF-8) and hands a yaml::Input positioned
/// on its document to `map`, which does `input >> value`. Diagnostics (line, column, caret) go into the
/// failure's message. `context` is yaml::Input's context pointer.
llvm::Error withYaml(llvm::StringRef text, llvm::StringRef name, void *context,
                     llvm::function_ref<void(llvm::yaml::Input &)> map, TextLimits limits = {});

/// Errors that only the meaning of a document shows, at a place in it. Only the first few are kept.
class YamlComplaints {
public:
  virtual ~YamlComplaints() = default;
  /// `where` comes from the document's nodes (yaml::Input::getCurrentNode()); an empty range means its
  /// beginning.
  virtual void add(llvm::SMRange where, const llvm::Twine &message) = 0;
  virtual bool any() const = 0; ///< True once something is wrong, whoever found it.
};
/// The same for a mapping that checks what it has read and complains about it with line, column and caret.
llvm::Error withYaml(llvm::StringRef text, llvm::StringRef name, void *context,
                     llvm::function_ref<void(llvm::yaml::Input &, YamlComplaints &)> map,
                     TextLimits limits = {});

/// Numbers as people write them in descriptions and on command lines: decimal, 0x…, 0b…, 0o…; `_` between
/// digits allowed. A leading zero ("010") is refused because half the world reads it as 8. Nothing else
/// accepted.
llvm::Expected<uint64_t> parseNumber(llvm::StringRef text);

} // namespace tapeback
