"""A virtual machine with Debian's kernel, an IOMMU and devices behind PCIe root ports, to try VFIO on.

    image = VirtualMachine.buildImage(build)      # kernel, initramfs with tapeback and its library closure
    with VirtualMachine.Machine(image, share, script) as machine:
        machine.waitFor("@@step-1 done")          # lines of the guest's console
        machine.qmp("device_del", id="edu2")
        machine.finish()

The guest runs SCRIPT (busybox sh) with the folder SHARE as its working directory, and powers off. Everything ends in
bounded time: a machine that is not down at its deadline is killed, and that is a failure.
"""
import gzip
import json
import os
import pathlib
import queue
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = pathlib.Path(__file__).resolve().parent

# In the order in which they must be loaded: each after what it depends on.
MODULES = ["irqbypass", "vfio", "vfio_iommu_type1", "vfio_virqfd", "vfio-pci-core", "vfio-pci", "virtio_ring", "virtio",
           "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci", "netfs", "fscache", "9pnet", "9pnet_virtio",
           "9p"]


class MachineError(Exception):
    pass


def missing():
    """Why no machine can be started here; None if one can."""
    for program in ("qemu-system-x86_64", "cpio", "apt-get", "dpkg"):
        if not shutil.which(program):
            return f"{program} is not installed"
    if not pathlib.Path("/bin/busybox").exists():
        return "busybox-static is not installed"
    return None


def closure(programs):
    """The shared libraries that `programs` need, the loader included, as absolute paths."""
    found = set()
    for program in programs:
        text = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
        if "not found" in text:
            raise MachineError(f"{program} lacks a library:\n{text}")
        found.update(re.findall(r"(/\S+) \(0x", text))
    return found


def buildImage(build, extra=(), folder=None):
    """Fetches the kernel if need be and packs the initramfs. `extra`: more programs, put beside tapeback."""
    folder = pathlib.Path(folder or ROOT / "build" / "vm")
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([HERE / "fetch-kernel", folder / "kernel"], check=True)
    kernelRoot = folder / "kernel" / "root"
    modules = {path.stem: path for path in kernelRoot.glob("lib/modules/*/kernel/**/*.ko")}

    with tempfile.TemporaryDirectory(dir=folder) as work:
        root = pathlib.Path(work)
        for name in ("bin", "dev", "proc", "sys", "mnt", "tmp", "root", "etc", "lib/modules", "opt/tapeback"):
            (root / name).mkdir(parents=True)
        shutil.copy("/bin/busybox", root / "bin" / "busybox")
        shutil.copy(HERE / "init", root / "init")
        (root / "init").chmod(0o755)
        (root / "etc/passwd").write_text("root::0:0::/root:/bin/sh\nnobody::65534:65534::/tmp:/bin/sh\n")
        (root / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")
        for name in MODULES:
            shutil.copy(modules[name], root / "lib/modules" / f"{name}.ko")
        (root / "lib/modules/order").write_text("".join(f"{name}\n" for name in MODULES))

        # As installed, so that programs find their libraries and plugins relative to themselves.
        installed = root / "installed"
        subprocess.run(["cmake", "--install", build, "--prefix", installed], check=True, stdout=subprocess.DEVNULL)
        for name in ("", "bin", "opt", "opt/tapeback"):
            (root / name).chmod(0o755)  # Also for whoever is not root in there.
        elf = []
        for part in ("bin", "lib", "share"):
            for path in sorted((installed / part).rglob("*")):
                if not path.is_dir() and path.suffix not in (".a", ".cmake"):
                    elf.append(_install(path, root / "opt/tapeback" / path.relative_to(installed)))
        shutil.rmtree(installed)
        for path in extra:
            elf.append(_install(pathlib.Path(path), root / "opt/tapeback/bin" / pathlib.Path(path).name))
        for library in closure([path for path in elf if path]):
            if library.startswith(str(root)):
                continue
            target = root / library.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                shutil.copy(os.path.realpath(library), target)

        names = subprocess.run(["find", ".", "-print0"], cwd=root, capture_output=True, check=True).stdout
        archive = subprocess.run(["cpio", "--null", "-o", "-H", "newc", "--quiet"], cwd=root, input=names,
                                 capture_output=True, check=True).stdout
        image = folder / f"initramfs-{os.getpid()}.gz"
        with gzip.open(image, "wb", compresslevel=1) as out:
            out.write(archive)
    kernel = next(kernelRoot.glob("boot/vmlinuz-*"))
    return Image(kernel, image, modules)


def _install(source, target):
    """Copies a file, stripped if it is a program; returns its path if it is one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_symlink():
        target.symlink_to(os.readlink(source))
        return None
    shutil.copy(source, target)
    with open(source, "rb") as file:
        if file.read(4) != b"\x7fELF":
            return None
    subprocess.run(["strip", "--strip-unneeded", target], check=True)
    return target


class Image:
    def __init__(self, kernel, initramfs, modules):
        self.kernel, self.initramfs, self.modules = kernel, initramfs, modules

    def remove(self):
        self.initramfs.unlink(missing_ok=True)


class Machine:
    """One boot. `devices`: name → QEMU device text without bus; each gets a root port of its own, in order, so that the
    first is 0000:01:00.0, the second 0000:02:00.0 and so on."""

    def __init__(self, image, share, script, devices=None, seconds=240, memory=1024, arguments=()):
        self.share = pathlib.Path(share)
        (self.share / "guest.sh").write_text(script)
        self.deadline = time.monotonic() + seconds
        self.console = []
        self._lines = queue.Queue()
        self._folder = tempfile.TemporaryDirectory(prefix="tapeback-vm-")
        qmpPath = os.path.join(self._folder.name, "qmp")
        # One thread for both processors: with one for each, this QEMU can lose a processor's end-of-interrupt, whose timer
        # is then dead for good. It costs nothing here, where the guest mostly waits.
        command = ["qemu-system-x86_64", "-accel", "tcg,thread=single", "-machine", "q35,kernel-irqchip=split", "-cpu", "max",
                   "-smp", "2", "-m", str(memory), "-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot",
                   "-kernel", str(image.kernel), "-initrd", str(image.initramfs),
                   "-append", "console=ttyS0 quiet panic=-1 intel_iommu=on",
                   "-device", "intel-iommu,intremap=on",
                   "-qmp", f"unix:{qmpPath},server=on,wait=off",
                   "-fsdev", f"local,id=fs,path={self.share},security_model=none",
                   "-device", "virtio-9p-pci,fsdev=fs,mount_tag=share"]
        for number, (name, device) in enumerate((devices or {"edu1": "edu"}).items(), start=1):
            command += ["-device", f"pcie-root-port,id=port{number},chassis={number},slot={number}",
                        "-device", f"{device},bus=port{number},id={name}"]
        command += list(arguments)
        self._qmpPath = qmpPath
        self._qmp = None
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, preexec_fn=_dieWithParent)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self._folder.cleanup()

    def _read(self):
        for raw in self.process.stdout:
            line = raw.decode(errors="replace").rstrip("\r\n")
            self.console.append(line)
            self._lines.put(line)
        self._lines.put(None)

    def waitFor(self, text, seconds=None):
        """The next console line that contains `text`; MachineError at the deadline or if the machine goes down first."""
        end = min(self.deadline, time.monotonic() + seconds) if seconds else self.deadline
        while True:
            try:
                line = self._lines.get(timeout=max(0, end - time.monotonic()))
            except queue.Empty:
                raise MachineError(f"the machine did not say '{text}' in time; it said:\n" + self.tail()) from None
            if line is None:
                raise MachineError(f"the machine went down before it said '{text}'; it said:\n" + self.tail())
            if text in line:
                return line

    def finish(self):
        """Waits until the machine has powered off by itself; returns the guest script's exit status."""
        try:
            self.process.wait(timeout=max(0, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
            raise MachineError("the machine did not power off in time; it said:\n" + self.tail()) from None
        self._reader.join()
        for line in reversed(self.console):
            if match := re.search(r"@@end (\d+)", line):
                return int(match[1])
        raise MachineError("the guest's script did not end; the machine said:\n" + self.tail())

    def qmp(self, command, **arguments):
        if not self._qmp:
            self._qmp = socket.socket(socket.AF_UNIX)
            self._qmp.settimeout(30)
            self._qmp.connect(self._qmpPath)
            self._qmpFile = self._qmp.makefile("rw")
            json.loads(self._qmpFile.readline())
            self.qmp("qmp_capabilities")
        self._qmpFile.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self._qmpFile.flush()
        while True:
            answer = json.loads(self._qmpFile.readline())
            if "error" in answer:
                raise MachineError(f"{command}: {answer['error']}")
            if "return" in answer:
                return answer["return"]

    def monitor(self, line, expect):
        """A command of QEMU's own monitor; its answer must begin with `expect`."""
        answer = self.qmp("human-monitor-command", **{"command-line": line})
        if not answer.startswith(expect):
            raise MachineError(f"{line}: {answer}")

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def tail(self, lines=60):
        return "\n".join(self.console[-lines:])


def _dieWithParent():
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
