#include "hal/qemu/QemuArguments.h"
#include "format/Failure.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

using namespace llvm;

namespace tapeback {
namespace {

Error refuse(const Twine &what) {
  return failUsage("qemu-args-refused", what.str(), "QEMU's command line",
                   "give a command line with --qemu-args that opens nothing of this machine");
}

/// What an option may be.
enum class Use {
  Drop,      ///< How QEMU is talked to; the replay's business.
  DropValue, ///< The same, with a value.
  Flag,      ///< Kept.
  Value,     ///< Kept with its value, which is of no harm.
  Keys,      ///< Kept if no key of the value could open anything.
  Silent,    ///< Kept as "none" (there is no such port) or "null" (there is one, with nothing behind it).
  Null,      ///< Kept if the value is a drive, network or other back end without anything behind it.
};
struct Option {
  const char *name;
  Use use;
};
constexpr Option options[] = {
    {"-qtest", Use::DropValue},
    {"-qtest-log", Use::DropValue},
    {"-accel", Use::DropValue},
    {"-display", Use::DropValue},
    {"-monitor", Use::DropValue},
    {"-serial", Use::Silent},
    {"-parallel", Use::Silent},
    {"-d", Use::DropValue},
    {"-D", Use::DropValue},
    {"-trace", Use::DropValue},
    {"-name", Use::DropValue},
    {"-nographic", Use::Drop},
    {"-S", Use::Drop},
    {"-no-shutdown", Use::Drop},
    {"-enable-kvm", Use::Drop},
    {"-no-user-config", Use::Drop},
    {"-nodefaults", Use::Flag},
    {"-usb", Use::Flag},
    {"-no-reboot", Use::Flag},
    {"-no-acpi", Use::Flag},
    {"-no-hpet", Use::Flag},
    {"-snapshot", Use::Flag},
    {"-machine", Use::Keys},
    {"-M", Use::Keys},
    {"-m", Use::Value},
    {"-cpu", Use::Value},
    {"-smp", Use::Value},
    {"-vga", Use::Value},
    {"-rtc", Use::Value},
    {"-device", Use::Keys},
    {"-global", Use::Keys},
    {"-drive", Use::Null},
    {"-blockdev", Use::Null},
    {"-netdev", Use::Null},
    {"-nic", Use::Null},
    {"-net", Use::Null},
    {"-object", Use::Null},
    {"-audiodev", Use::Null},
    {"-chardev", Use::Null},
};

/// Front ends that reach the host by themselves.
constexpr StringRef hostDevices[] = {"vfio",         "vhost",
                                     "usb-host",     "loader",
                                     "guest-loader", "ivshmem",
                                     "scsi-block",   "scsi-generic",
                                     "usb-mtp",      "u2f-",
                                     "tpm",          "usb-redir",
                                     "xen",          "host-",
                                     "pci-assign",   "ccid-card-passthru",
                                     "virtio-9p",    "virtio-input-host"};
/// Keys of front ends and machines that open something.
constexpr StringRef hostKeys[] = {"file",     "filename", "host",   "hostbus", "hostaddr", "hostdevice",
                                  "sysfsdev", "rootdir",  "path",   "fd",      "vhostfd",  "firmware",
                                  "dumpdtb",  "kernel",   "initrd", "dtb",     "evdev",    "logfile",
                                  "pcap",     "mem-path", "socket"};

bool opensSomething(StringRef key, StringRef content) {
  StringRef last = key.rsplit('.').second; // -global DRIVER.KEY=VALUE
  if (!last.empty())
    key = last;
  return key == "romfile" ? !content.empty() : is_contained(hostKeys, key);
}

Error checkKeys(StringRef option, StringRef value) {
  SmallVector<StringRef, 8> parts;
  value.split(parts, ',');
  StringRef first = parts.front();
  if (option == "-device") {
    first.consume_front("driver=");
    for (StringRef bad : hostDevices)
      if (first.starts_with(bad))
        return refuse("-device " + first + " reaches this machine's devices or files");
  }
  for (StringRef part : parts) {
    auto [key, content] = part.split('=');
    if (opensSomething(key, content))
      return refuse(option + " with '" + key + "=' could open a file or a device");
  }
  return Error::success();
}

Error checkNull(StringRef option, StringRef value) {
  SmallVector<StringRef, 8> parts;
  value.split(parts, ',');
  StringRef kind = parts.front();
  auto keysAre = [&](ArrayRef<StringRef> allowed) {
    return all_of(ArrayRef(parts).drop_front(),
                  [&](StringRef part) { return is_contained(allowed, part.split('=').first); });
  };
  bool fine = false;
  if (option == "-drive") {
    fine = true;
    for (StringRef part : parts) {
      auto [key, content] = part.split('=');
      if (key == "file" || key == "driver" || key == "file.driver" || key == "format")
        fine &= content == "null-co://" || content == "null-aio://" || content == "null-co" ||
                content == "null-aio" || (key == "format" && content == "raw");
      else
        fine &= is_contained<StringRef>({"id",
                                         "if",
                                         "media",
                                         "index",
                                         "bus",
                                         "unit",
                                         "size",
                                         "file.size",
                                         "cache",
                                         "aio",
                                         "werror",
                                         "rerror",
                                         "readonly",
                                         "file.read-zeroes",
                                         "auto-read-only",
                                         "discard",
                                         "copy-on-read",
                                         "serial",
                                         "snapshot",
                                         "throttling.bps-total",
                                         "file.latency-ns"},
                                        key);
    }
  } else if (option == "-blockdev") {
    kind.consume_front("driver=");
    fine = (kind == "null-co" || kind == "null-aio") &&
           keysAre({"node-name", "size", "read-zeroes", "latency-ns", "read-only"});
  } else if (option == "-netdev" || option == "-nic" || option == "-net") {
    // User networking without forwarding: nothing listens; -sandbox and the caller see to the rest.
    fine = kind == "none" || kind == "nic" || kind == "hubport" || kind == "user"
               ? keysAre({"id", "model", "mac", "macaddr", "netdev", "hubid", "addr", "name", "vectors"})
               : false;
  } else if (option == "-object") {
    kind.consume_front("qom-type=");
    fine = (kind == "memory-backend-ram" || kind == "iothread" || kind == "rng-builtin" ||
            kind == "cryptodev-backend-builtin") &&
           keysAre({"id", "size", "share", "queues"});
  } else if (option == "-audiodev" || option == "-chardev") {
    kind.consume_front("driver=");
    kind.consume_front("backend=");
    fine = (kind == "none" || kind == "null") && keysAre({"id"});
  }
  if (!fine)
    return refuse(option + " " + value.take_front(80) + " has something of this machine behind it");
  return Error::success();
}

/// Splits as a shell would, without expanding anything; ends where the command does.
Expected<std::vector<std::string>> shellWords(StringRef text) {
  std::vector<std::string> words;
  std::string word;
  bool open = false;
  char quote = 0;
  auto close = [&] {
    if (open)
      words.push_back(std::move(word));
    word.clear();
    open = false;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '$' || c == '`')
      return refuse("it contains '" + Twine(c) + "', which a shell would expand");
    if (c == '\\' && quote != '\'') {
      if (++i == text.size())
        break;
      if (text[i] != '\n')
        word += text[i], open = true;
    } else if (quote) {
      c == quote ? void(quote = 0) : word.push_back(c);
    } else if (c == '\'' || c == '"') {
      quote = c, open = true;
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      close();
    } else if (c == '<' || c == '>' || c == '|' || c == ';' || c == '&') {
      if (c == '>' && (word == "2" || word == "1"))
        open = false, word.clear();
      break;
    } else {
      word += c, open = true;
    }
  }
  if (quote)
    return refuse("a quote is not closed");
  close();
  return words;
}

} // namespace

std::string QemuCommand::text() const {
  std::string all;
  for (const std::string &argument : arguments) {
    bool quote = argument.empty() || argument.find_first_of(" \t'\"\\") != std::string::npos;
    if (!all.empty())
      all += ' ';
    if (!quote) {
      all += argument;
      continue;
    }
    all += '\'';
    for (char c : argument)
      all += c == '\'' ? std::string("'\\''") : std::string(1, c);
    all += '\'';
  }
  return all;
}

Expected<QemuCommand> parseQemuCommand(StringRef text) {
  if (text.size() > 64 << 10)
    return refuse("it is longer than 64 KiB");
  QemuCommand command;
  size_t program = text.find("qemu-system-");
  if (program != StringRef::npos) {
    StringRef rest = text.drop_front(program + StringRef("qemu-system-").size());
    StringRef name = rest.take_while([](char c) { return isalnum(uint8_t(c)) || c == '_'; });
    if (name.empty() || name.size() > 16)
      return refuse("the architecture is missing behind qemu-system-");
    command.architecture = name.str();
    text = rest.drop_front(name.size());
  }
  Expected<std::vector<std::string>> words = shellWords(text);
  if (!words)
    return words.takeError();
  for (size_t i = 0; i < words->size(); ++i) {
    StringRef name = (*words)[i];
    if (name.starts_with("--"))
      name = name.drop_front(1);
    const Option *option = find_if(options, [&](const Option &o) { return name == o.name; });
    if (option == std::end(options))
      return refuse("'" + name.take_front(80) + "' is not on the list of options");
    if (option->use == Use::Drop)
      continue;
    command.arguments.push_back(name.str());
    if (option->use == Use::Flag)
      continue;
    if (++i == words->size())
      return refuse(name + " needs a value");
    StringRef value = (*words)[i];
    Error error = option->use == Use::Keys   ? checkKeys(name, value)
                  : option->use == Use::Null ? checkNull(name, value)
                                             : Error::success();
    if (error)
      return error;
    if (option->use == Use::DropValue)
      command.arguments.pop_back();
    else
      command.arguments.push_back(option->use == Use::Silent && value != "none" ? "null" : value.str());
  }
  return command;
}

} // namespace tapeback
