#include "tools/OutputFile.h"
#include "format/Failure.h"
#include "llvm/Support/Path.h"
#include <cerrno>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>

using namespace llvm;

namespace tapeback {

Error checkOutputFile(StringRef out, StringRef in, bool force) {
  const std::string path = out.str();
  if (path.empty())
    return failUsage("bad-output", "the name of the output file is empty", "--output", "name a file");
  struct stat there, source;
  if (stat(path.c_str(), &there) == 0) {
    if (!in.empty() && stat(in.str().c_str(), &source) == 0 && there.st_dev == source.st_dev &&
        there.st_ino == source.st_ino)
      return failUsage("output-is-input", "the output is the input", path, "write to another file");
    if (!S_ISREG(there.st_mode))
      return failUsage("bad-output",
                       S_ISDIR(there.st_mode) ? "the output is a directory" : "the output is not a file",
                       path, "name a file");
    if (!force)
      return failUsage("output-exists", "the output exists", path, "name another file, or give --force");
  } else if (errno != ENOENT) {
    return failUsage("bad-output", std::string("the output cannot be written: ") + std::strerror(errno), path,
                     "name a file in a directory that can be written");
  }
  StringRef parent = sys::path::parent_path(out);
  const std::string directory = parent.empty() ? "." : parent.str();
  if (access(directory.c_str(), W_OK | X_OK))
    return failUsage("bad-output",
                     std::string("the output's directory cannot be written: ") + std::strerror(errno),
                     directory, "name a file in a directory that can be written");
  return Error::success();
}

} // namespace tapeback
