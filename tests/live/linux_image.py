"""A bootable disk with Linux from Debian packages, whose first program asks for an address and for its metadata.

What it writes on its serial console is what tests look at. Its SSH server admits root with the key pair of its server,
and QEMU's guest agent writes in /agent.log what it is asked for.
Needs the package mirror, syslinux, mtools, busybox-static, dropbear-bin and qemu-guest-agent.
"""

import gzip
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.prerequisites import missing

PACKAGES = {"syslinux": "syslinux", "mcopy": "mtools", "busybox": "busybox-static", "qemu-img": "qemu-utils"}
PROGRAMS = {Path("/usr/sbin/dropbear"): "dropbear-bin", Path("/usr/sbin/qemu-ga"): "qemu-guest-agent"}
"""What runs in the guest, with the packages."""

META_PACKAGE = "linux-image-cloud-amd64"
SIZE_KIB = 32 << 10
MODULES = (
    "virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci",
    "failover", "net_failover", "virtio_net", "virtio_console",
)  # fmt: skip
BOOT = """\
DEFAULT linux
PROMPT 0
TIMEOUT 0
LABEL linux
  KERNEL vmlinuz
  INITRD initrd.gz
  APPEND console=ttyS0 quiet panic=1
"""
METADATA = "GET /openstack/latest/meta_data.json HTTP/1.0\\r\\n\\r\\n"
KEY = "GET /latest/meta-data/public-keys/0/openssh-key HTTP/1.0\\r\\n\\r\\n"
INIT = f"""\
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for module in {" ".join(MODULES)}; do insmod /$module.ko; done
ip link set lo up; ip link set eth0 up
udhcpc -i eth0 -q -f -t 10 -T 1 -O staticroutes -O mtu -s /dhcp
echo; echo "METADATA $(printf '{METADATA}' | nc -w 10 169.254.169.254 80 | tail -n 1)"
mkdir -p /etc/dropbear /.ssh; chmod 755 /; chmod 700 /.ssh
echo root:x:0:0:root:/:/bin/sh > /etc/passwd
printf '{KEY}' | nc -w 10 169.254.169.254 80 | tail -n 1 > /.ssh/authorized_keys
chmod 600 /.ssh/authorized_keys
LD_LIBRARY_PATH=/lib /dropbear -R -E -s
mkdir -p /var/run; echo 'root:*:1::::::' > /etc/shadow
for port in /dev/vport*p*; do
    [ ! -e $port ] || LD_LIBRARY_PATH=/lib /qemu-ga -d -v -l /agent.log -t /var/run -m virtio-serial -p $port
done
while :; do sleep 60; done
"""
CHPASSWD = """\
#!/bin/sh
IFS=: read -r user password
echo "$user:$(echo -n "$password" | sha512sum | cut -c -128):1::::::" > /etc/shadow
"""
DHCP = """\
#!/bin/sh
[ "$1" = bound ] || exit 0
ip addr add $ip/$mask dev eth0
set -- $staticroutes
while [ "$1" ]; do ip route add $1 via $2; shift 2; done
hostname "$hostname"
echo; echo "ADDRESS $ip"
"""


def linux_image(directory: Path) -> Path:
    """Make the disk, a qcow2 file; if something that it needs is missing, the test is given up."""
    for program, package in PACKAGES.items():
        if not shutil.which(program):
            missing(f"there is no command {program}", f"apt-get install {package}")
    for path, package in PROGRAMS.items():
        if not path.exists():
            missing(f"there is no {path}", f"apt-get install {package}")
    root = _kernel(directory)
    (kernel,) = (root / "boot").glob("vmlinuz-*")
    found = {path.name: path for path in (root / "lib/modules").rglob("*.ko")}
    files = {f"{name}.ko": found[f"{name}.ko"].read_bytes() for name in MODULES}
    files |= {"init": INIT.encode(), "dhcp": DHCP.encode(), "bin/chpasswd": CHPASSWD.encode()}
    files["bin/busybox"] = Path(shutil.which("busybox") or "").read_bytes()
    files["bin/sh"] = files["bin/busybox"]
    for path in PROGRAMS:
        files |= {path.name: path.read_bytes(), **_libraries(path)}
    initrd, boot, disk = directory / "initrd.gz", directory / "syslinux.cfg", directory / "linux.img"
    initrd.write_bytes(gzip.compress(archive(["bin", "lib", "lib64", "proc", "sys", "dev"], files), 1))
    boot.write_text(BOOT)
    _run("mformat", "-i", str(disk), "-C", "-T", str(SIZE_KIB * 2), "-h", "64", "-s", "32", "::")
    _run("mcopy", "-i", str(disk), str(initrd), str(boot), "::")
    _run("mcopy", "-i", str(disk), str(kernel), "::vmlinuz")
    _run("syslinux", "--install", str(disk))
    # A boot sector without partitions is an unsafe raw image to an image service.
    image = directory / "linux.qcow2"
    _run("qemu-img", "convert", "-O", "qcow2", str(disk), str(image))
    return image


def _kernel(directory: Path) -> Path:
    """Download the kernel's package and return the directory with its files."""
    depends = subprocess.run(["apt-cache", "depends", META_PACKAGE], capture_output=True, text=True, check=False).stdout
    package = next((word for word in depends.split() if word.startswith("linux-image-") and word != META_PACKAGE), None)
    download = ["apt-get", "download", package or META_PACKAGE]
    if package is None or subprocess.run(download, cwd=directory, capture_output=True, check=False).returncode:
        missing("the kernel's package cannot be downloaded", "apt-get update")
    (file,) = directory.glob("linux-image-*.deb")
    root = directory / "kernel"
    _run("dpkg-deb", "-x", str(file), str(root))
    return root


def _libraries(program: Path) -> dict[str, bytes]:
    """Return the shared libraries of a program by their paths in the guest: the loader's, and the others in /lib."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    paths = [Path(word) for word in listed.split() if word.startswith("/")]
    return {str(path)[1:] if path.parent == Path("/lib64") else f"lib/{path.name}": path.read_bytes() for path in paths}


def archive(directories: Iterable[str], files: Mapping[str, bytes]) -> bytes:
    """Return an archive for the kernel (cpio, newc). All files are executable."""
    entries = [(name, b"", 0o40755) for name in directories] + [(name, data, 0o100755) for name, data in files.items()]
    return b"".join(_entry(*each) for each in [*entries, ("TRAILER!!!", b"", 0)])


def _entry(name: str, content: bytes, mode: int) -> bytes:
    fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    header = b"070701" + b"".join(b"%08X" % each for each in fields) + name.encode() + b"\0"
    return header + bytes(-len(header) % 4) + content + bytes(-len(content) % 4)


def _run(*words: str) -> None:
    environment = os.environ | {"MTOOLS_SKIP_CHECK": "1"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, f"{words}: {done.stderr}"
