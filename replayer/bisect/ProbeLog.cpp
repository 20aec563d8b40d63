#include "replayer/bisect/ProbeLog.h"
#include "format/Failure.h"
#include "format/Text.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tapeback {

namespace {

constexpr int64_t version = 1;
constexpr uint64_t mostBytes = 64u << 20, mostLine = 1u << 16;

/// Numbers of 64 bits do not fit JSON's: as text, like everywhere in the reports.
std::string text(uint64_t number) {
  return std::to_string(number);
}

std::optional<uint64_t> numberOf(const llvm::json::Object &object, llvm::StringRef key) {
  std::optional<llvm::StringRef> value = object.getString(key);
  uint64_t number = 0;
  if (!value || value->getAsInteger(10, number))
    return std::nullopt;
  return number;
}

std::string textOf(const llvm::json::Object &object, llvm::StringRef key) {
  return object.getString(key).value_or("").str();
}

llvm::json::Object toJson(const StateDifference &d) {
  return llvm::json::Object{
      {"kind", int64_t(d.kind)},    {"device", int64_t(d.device)}, {"name", llvm::json::fixUTF8(d.name)},
      {"address", text(d.address)}, {"offset", text(d.offset)},    {"good", text(d.good)},
      {"bad", text(d.bad)},         {"wrong", text(d.wrong)}};
}

std::optional<StateDifference> stateOf(const llvm::json::Object &object) {
  StateDifference d;
  std::optional<int64_t> kind = object.getInteger("kind"), device = object.getInteger("device");
  std::optional<uint64_t> address = numberOf(object, "address"), offset = numberOf(object, "offset"),
                          good = numberOf(object, "good"), bad = numberOf(object, "bad"),
                          wrong = numberOf(object, "wrong");
  if (!kind || *kind < 0 || *kind > int64_t(StateDifference::Kind::Counter) || !device || *device < 0 ||
      *device > UINT16_MAX || !address || !offset || !good || !bad || !wrong)
    return std::nullopt;
  d.kind = StateDifference::Kind(*kind);
  d.device = uint16_t(*device);
  d.name = textOf(object, "name");
  d.address = *address;
  d.offset = *offset;
  d.good = *good;
  d.bad = *bad;
  d.wrong = *wrong;
  return d;
}

llvm::json::Object toJson(const Divergence &d) {
  llvm::json::Object object{{"device", int64_t(d.place.device)},
                            {"thread", int64_t(d.place.thread)},
                            {"window", text(d.place.window)},
                            {"packet", text(d.place.packet)},
                            {"rule", ruleName(d.rule)},
                            {"kind", llvm::json::fixUTF8(d.kind)},
                            {"space", llvm::json::fixUTF8(d.space)},
                            {"address", text(d.address)},
                            {"register", llvm::json::fixUTF8(d.reg)},
                            {"field", llvm::json::fixUTF8(d.field)},
                            {"failure", llvm::json::fixUTF8(d.failure)},
                            {"prefix", d.prefix},
                            {"concurrent", d.concurrent},
                            {"poisoned", d.poisoned}};
  for (auto [key, value] :
       {std::pair("offset", &d.offset), std::pair("expected", &d.expected), std::pair("actual", &d.actual)})
    if (*value)
      object[key] = text(**value);
  return object;
}

std::optional<Divergence> divergenceOf(const llvm::json::Object &object) {
  Divergence d;
  std::optional<int64_t> device = object.getInteger("device"), thread = object.getInteger("thread");
  std::optional<uint64_t> window = numberOf(object, "window"), packet = numberOf(object, "packet"),
                          address = numberOf(object, "address");
  std::string rule = textOf(object, "rule");
  unsigned which = 0;
  while (which < ruleCount && rule != ruleName(Rule(which)))
    ++which;
  if (!device || *device < 0 || *device > UINT16_MAX || !thread || *thread < 0 || *thread > UINT16_MAX ||
      !window || !packet || !address || which == ruleCount)
    return std::nullopt;
  d.place.device = uint16_t(*device);
  d.place.thread = uint16_t(*thread);
  d.place.window = *window;
  d.place.packet = *packet;
  d.rule = Rule(which);
  d.grade = gradeOf(d.rule);
  d.kind = textOf(object, "kind");
  d.space = textOf(object, "space");
  d.address = *address;
  d.reg = textOf(object, "register");
  d.field = textOf(object, "field");
  d.failure = textOf(object, "failure");
  d.offset = numberOf(object, "offset");
  d.expected = numberOf(object, "expected");
  d.actual = numberOf(object, "actual");
  d.prefix = object.getBoolean("prefix").value_or(false);
  d.concurrent = object.getBoolean("concurrent").value_or(false);
  d.poisoned = object.getBoolean("poisoned").value_or(false);
  return d;
}

std::optional<LoggedPass> passOf(const llvm::json::Object &object) {
  LoggedPass pass;
  std::optional<bool> good = object.getBoolean("good"), bad = object.getBoolean("bad");
  if (!good || !bad)
    return std::nullopt;
  pass.goodDiffers = *good;
  pass.badDiffers = *bad;
  const llvm::json::Object *divergence = object.getObject("divergence");
  if (!divergence)
    return pass;
  pass.divergence = divergenceOf(*divergence);
  if (!pass.divergence)
    return std::nullopt;
  pass.run = {true, pass.divergence->place.window, pass.divergence->place.packet, pass.divergence->offset,
              textOf(object, "text")};
  return pass;
}

std::string lineOf(llvm::json::Object object) {
  std::string line;
  llvm::raw_string_ostream(line) << llvm::json::Value(std::move(object)) << "\n";
  return line;
}

llvm::Error cannot(const std::string &path, const char *what) {
  return failUsage("bad-state", std::string("the state cannot be ") + what + ": " + ::strerror(errno), path);
}

} // namespace

llvm::Expected<std::unique_ptr<ProbeLog>> ProbeLog::open(llvm::StringRef path, llvm::StringRef about) {
  std::string name = path.str();
  int fd = ::open(name.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (fd < 0)
    return cannot(name, "opened");
  std::unique_ptr<ProbeLog> log(new ProbeLog(name, fd));
  struct stat info;
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || uint64_t(info.st_size) > mostBytes)
    return failUsage("bad-state", "not a file that could be a bisect's state", name);
  std::string content(size_t(info.st_size), '\0');
  for (size_t at = 0; at < content.size();) {
    ssize_t n = ::pread(fd, content.data() + at, content.size() - at, off_t(at));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return cannot(name, "read");
    at += size_t(n);
  }
  std::string head =
      lineOf(llvm::json::Object{{"tapeback_bisect_state", version}, {"about", llvm::json::fixUTF8(about)}});
  // What has no end was being written when it was interrupted. Nothing is cut before the file is known to be
  // a state: by its first line, or because it is the beginning of this one's.
  size_t whole = content.rfind('\n') == std::string::npos ? 0 : content.rfind('\n') + 1;
  if (!whole && !llvm::StringRef(head).starts_with(content))
    return failUsage("bad-state", "not the state of a bisect", name, "give the name of a new file");
  if (llvm::Error error = log->read(llvm::StringRef(content).take_front(whole), about))
    return error;
  if (whole < content.size() && ::ftruncate(fd, off_t(whole)) != 0)
    return cannot(name, "cut to its last whole line");
  if (!whole)
    if (llvm::Error error = log->append(head))
      return error;
  return log;
}

ProbeLog::~ProbeLog() {
  ::close(fd);
}

llvm::Error ProbeLog::read(llvm::StringRef content, llvm::StringRef about) {
  for (uint64_t number = 1; !content.empty(); ++number) {
    auto [line, rest] = content.split('\n');
    content = rest;
    std::string where = path + ":" + std::to_string(number);
    auto bad = [&](const char *why) {
      return failUsage("bad-state", std::string("not the state of a bisect: ") + why, where,
                       "remove it, or give the name of a new file");
    };
    if (line.size() > mostLine)
      return bad("a line too long");
    llvm::Expected<llvm::json::Value> value = parseJson(line, where, {mostLine, 8, 4096});
    if (!value)
      return bad(toFailure(value.takeError()).message.c_str());
    const llvm::json::Object *object = value->getAsObject();
    if (!object)
      return bad("no object");
    if (number == 1) {
      if (object->getInteger("tapeback_bisect_state").value_or(0) != version)
        return bad("no head of this version");
      if (textOf(*object, "about") != llvm::json::fixUTF8(about))
        return failUsage("other-state",
                         "the file has the state of another bisect: another tape, other targets or options",
                         path, "give the same ones, or the name of a new file");
      continue;
    }
    if (object->getBoolean("pass")) {
      std::optional<LoggedPass> pass = passOf(*object);
      if (!pass)
        return bad("a pass without what belongs to one");
      passes.push_back(std::move(*pass));
      continue;
    }
    std::optional<uint64_t> end = numberOf(*object, "probe");
    std::optional<int64_t> parts = object->getInteger("parts");
    std::optional<bool> differs = object->getBoolean("differs");
    if (!end || !parts || *parts < 0 || *parts > int64_t(probeAll) || !differs)
      return bad("neither a pass nor a probe");
    LoggedProbe probe{*differs, std::nullopt};
    if (const llvm::json::Object *difference = object->getObject("difference")) {
      probe.difference = stateOf(*difference);
      if (!probe.difference || !*differs)
        return bad("a difference without what belongs to one");
    }
    probes[{*end, unsigned(*parts)}].push_back(std::move(probe));
  }
  return llvm::Error::success();
}

std::optional<LoggedProbe> ProbeLog::probe(uint64_t end, unsigned parts) {
  auto at = probes.find({end, parts});
  if (at == probes.end() || at->second.empty())
    return std::nullopt;
  LoggedProbe probe = std::move(at->second.front());
  at->second.pop_front();
  ++usedCount;
  return probe;
}

std::optional<LoggedPass> ProbeLog::pass() {
  if (passes.empty())
    return std::nullopt;
  LoggedPass pass = std::move(passes.front());
  passes.pop_front();
  ++usedCount;
  return pass;
}

llvm::Error ProbeLog::append(llvm::StringRef line) {
  for (size_t at = 0; at < line.size();) {
    ssize_t n = ::write(fd, line.data() + at, line.size() - at);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return failSystem("write-failed", std::string("the state cannot be written: ") + ::strerror(errno),
                        path);
    at += size_t(n);
  }
  return llvm::Error::success();
}

llvm::Error ProbeLog::add(uint64_t end, unsigned parts, const LoggedProbe &probe) {
  llvm::json::Object object{{"probe", text(end)}, {"parts", int64_t(parts)}, {"differs", probe.differs}};
  if (probe.difference)
    object["difference"] = toJson(*probe.difference);
  return append(lineOf(std::move(object)));
}

llvm::Error ProbeLog::add(const LoggedPass &pass) {
  llvm::json::Object object{{"pass", true},
                            {"good", pass.goodDiffers},
                            {"bad", pass.badDiffers},
                            {"text", llvm::json::fixUTF8(pass.run.text)}};
  if (pass.divergence)
    object["divergence"] = toJson(*pass.divergence);
  return append(lineOf(std::move(object)));
}

} // namespace tapeback
