"""Plays a guest, as a process: `tap_guest.py HOST_PID TAP MAC`.

It opens a tap of a host as QEMU does, and carries each frame to and from the device eth0 of a network namespace of its
own, in which tests run programs. HOST_PID: a process in the namespace of the host.
"""

import ctypes
import fcntl
import os
import select
import struct
import subprocess
import sys

TUNSETIFF = 0x400454CA
IFF_TAP = 0x0002
IFF_NO_PI = 0x1000
CLONE_NEWNET = 0x40000000
MOST = 1 << 16


def tap(name: str) -> int:
    opened = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(opened, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return opened


def main(host_pid: str, name: str, mac: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/proc/{host_pid}/ns/net", "rb") as host:
        assert libc.setns(host.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
    outside = tap(name)
    assert libc.unshare(CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
    inside = tap("eth0")
    subprocess.run(["ip", "link", "set", "eth0", "address", mac, "up"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    print("ready", flush=True)
    other = {outside: inside, inside: outside}
    while True:
        for readable in select.select(list(other), [], [])[0]:
            os.write(other[readable], os.read(readable, MOST))


if __name__ == "__main__":
    main(*sys.argv[1:])
