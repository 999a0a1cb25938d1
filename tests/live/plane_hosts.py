"""Hosts of the data plane for tests: network namespaces with processes that play the agent and the guests.

Invariant: all that runs on such a host dies with it, and nothing of the machine is changed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tests.live import data_plane_process, tap_guest
from tests.prerequisites import missing
from tests.processes import HANG_S
from whimbrel.adapters.host_network.packet_rules import link_local
from whimbrel.domain.host_networks import HostNetwork, HostNetworks, HostPort
from whimbrel.domain.server_devices import tap_name

NAMESPACES = (
    *("unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--propagation", "private"),
    *("--kill-child=SIGKILL", "setpriv", "--pdeathsig", "KILL"),
)
START = "mount -t tmpfs none /run && mkdir /run/netns && ip link set lo up && echo ready && exec sleep infinity"
PROGRAMS = {"ip": "iproute2", "nft": "nftables", "dnsmasq": "dnsmasq-base", "busybox": "busybox-static"}
DHCP_SCRIPT = """\
#!/bin/sh
[ "$1" = bound ] || exit 0
ip addr replace $ip/$mask dev eth0
ip link set eth0 mtu $mtu
set -- $staticroutes
while [ "$1" ]; do
    if [ "$2" = 0.0.0.0 ]; then ip route replace $1 dev eth0; else ip route replace $1 via $2; fi
    shift 2
done
echo "address=$ip routes=$staticroutes dns=$dns mtu=$mtu"
"""

DHCPV6_SCRIPT = """\
#!/bin/sh
[ "$reason" = BOUND6 ] || [ "$reason" = RENEW6 ] || exit 0  # the second for an answer without an address
[ "$new_ip6_address" ] && ip addr replace $new_ip6_address/128 dev eth0 nodad
echo "address=$new_ip6_address dns=$new_dhcp6_name_servers"
kill $PPID
"""

SHOWS = """\
import socket, subprocess, sys
wanted, seconds = sys.argv[1:]
events = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
events.bind((0, 0x100 | 0x400))  # addresses and routes of IPv6
events.settimeout(float(seconds))
while True:
    shown = [subprocess.check_output(["ip", "-6", "-o", what, "show"], text=True) for what in ("addr", "route")]
    here = [line for line in "".join(shown).splitlines() if "tentative" not in line]
    if any(wanted in line for line in here):
        break
    events.recv(65536)
print("\\n".join(here))
"""

ADVERTISEMENT = """\
import socket, sys
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x86DD))
link.bind(("eth0", 0x86DD))
asking = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
asking.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
link.settimeout(1.0)
frame = b""
while frame[20:21] + frame[54:55] != bytes([58, 134]):
    try:
        frame = link.recv(2000)
    except TimeoutError:
        asking.sendto(bytes([133]) + bytes(7), ("ff02::2", 0, 0, socket.if_nametoindex("eth0")))
print(frame.hex())
"""

FETCH = """\
import sys, urllib.request, urllib.error
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=float(sys.argv[2])).read().decode())
except urllib.error.HTTPError as error:
    print(error.code)
"""

TALK = """\
import socket, sys, time
address, port, kind, source, seconds = sys.argv[1:]
end = time.monotonic() + float(seconds)
talk = socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
if source:
    talk.bind((source, 0))
answer = b""
try:
    while not answer and (left := end - time.monotonic()) > 0:
        talk.settimeout(left if kind == "tcp" else min(left, 1.0))  # a datagram may be lost: it is sent again
        try:
            talk.connect((address, int(port)))
            talk.send(b"x")
            answer = talk.recv(100)
        except TimeoutError:
            pass
except OSError:
    pass
print(answer.decode() or "nothing")
"""

LISTEN = """\
import socket, sys
kind, port = sys.argv[1:]
if kind == "tcp":
    listener = socket.create_server(("", int(port)))
    print("ready", flush=True)
    while True:
        talk, peer = listener.accept()
        talk.send(peer[0].encode())
        talk.close()
listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
listener.bind(("", int(port)))
print("ready", flush=True)
while True:
    _, peer = listener.recvfrom(100)
    listener.sendto(peer[0].encode(), peer)
"""

SEND = """\
import socket, sys
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind(("eth0", 0))
for frame in sys.argv[1:]:
    link.send(bytes.fromhex(frame))
"""

SNIFF = """\
import socket, sys
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
link.bind(("eth0", 3))
print("ready", flush=True)
frames = [b""]
while b"the last one" not in frames[-1]:
    frames.append(link.recv(2000))
print(sum(bytes.fromhex(sys.argv[1]) in frame for frame in frames))
"""

LAST = b"the last one"
DENIED_S = 0.4
"""How long an answer is waited for that must not come: a slow machine makes such a check weaker, not wrong."""


class PlaneGuest:
    """A namespace behind a tap."""

    def __init__(self, host: "PlaneHost", port: HostPort) -> None:
        words = [sys.executable, tap_guest.__file__, str(host.pid), tap_name(port.id), port.mac]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        assert self._process.stdout.readline().strip() == "ready"
        self._listeners: list[subprocess.Popen[str]] = []
        self._host = host
        self.port = port

    def run(self, *words: str) -> str:
        return _run("nsenter", "-t", str(self._process.pid), "-n", *words)

    def dhcp(self) -> str:
        """Ask for an address with a real client; return what it was told."""
        script = self._host.directory / "dhcp.sh"
        script.write_text(DHCP_SCRIPT)
        script.chmod(0o755)
        asked = ("-O", "staticroutes", "-O", "mtu", "-O", "dns")
        return self.run(
            "busybox", "udhcpc", "-i", "eth0", "-q", "-f", "-t", str(int(HANG_S)), "-T", "1", *asked, "-s", str(script)
        )

    def dhcpv6(self, *words: str) -> str:
        """Ask for an address of IPv6 with a real client, or with -S for the rest only; return what it was told."""
        script, leases = self._host.directory / "dhcpv6.sh", self._host.directory / f"leases-{self.port.id}"
        leases.unlink(missing_ok=True)
        self.shows(link_local(self.port.mac))  # the client does not wait for it
        script.write_text(DHCPV6_SCRIPT)
        script.chmod(0o755)
        files = f"-sf {script} -lf {leases} -pf {leases}.pid"
        command = f"dhclient -6 -1 -d {' '.join(words)} {files} eth0 2>/dev/null || true"
        return self.run("timeout", str(HANG_S), "sh", "-c", command)

    def advertisement(self) -> bytes:
        """Ask for the next advertisement of a router, and return its frame."""
        return bytes.fromhex(self.run("timeout", str(HANG_S), sys.executable, "-c", ADVERTISEMENT))

    def shows(self, wanted: str) -> str:
        """Wait until the kernel shows this text in a line of its addresses and routes of IPv6; return them all."""
        return self.run(sys.executable, "-c", SHOWS, wanted, str(HANG_S))

    def has(self, address: str, gateway: str = "") -> None:
        """Set an address by hand."""
        self.run("ip", "addr", "replace", address, "dev", "eth0")
        if gateway:
            self.run("ip", "route", "replace", "default", "via", gateway)

    def fetch(self, url: str) -> str:
        return self.run(sys.executable, "-c", FETCH, url, str(HANG_S)).strip()

    def listens(self, kind: str, port: int) -> None:
        self._listeners.append(_listener(["nsenter", "-t", str(self._process.pid), "-n"], kind, port))

    def hears(self, address: str, port: int, kind: str = "tcp", source: str = "", seconds: float = HANG_S) -> str:
        """Return the address that a listener sees of this guest; "nothing": there was no answer."""
        return self.run(sys.executable, "-c", TALK, address, str(port), kind, source, str(seconds)).strip()

    def sends(self, frames: Sequence[bytes], other: "PlaneGuest", marker: bytes) -> int:
        """Send frames, and return how many with the marker have reached another guest. The last has LAST in it."""
        words = ["nsenter", "-t", str(other._process.pid), "-n", sys.executable, "-c", SNIFF, marker.hex()]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as sniffer:
            assert sniffer.stdout
            assert sniffer.stdout.readline().strip() == "ready"
            self.run(sys.executable, "-c", SEND, *(frame.hex() for frame in frames))
            return int(sniffer.stdout.read())

    def is_denied(self, address: str, port: int, kind: str = "tcp", source: str = "") -> bool:
        return self.hears(address, port, kind, source, DENIED_S) == "nothing"

    def close(self) -> None:
        for process in (*self._listeners, self._process):
            process.kill()
            process.wait()


class PlaneHost:
    """One host: its namespaces, and the process of its data plane."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._holder = subprocess.Popen([*NAMESPACES, "sh", "-c", START], stdout=subprocess.PIPE, text=True)
        assert self._holder.stdout
        assert self._holder.stdout.readline().strip() == "ready"
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children")
        self.pid = int(children.read_text().split()[0])
        self._plane: subprocess.Popen[str] | None = None
        self.guests: list[PlaneGuest] = []

    def words(self) -> list[str]:
        return ["nsenter", "-t", str(self.pid), "-m", "-n", "-p"]

    def run(self, *words: str) -> str:
        return _run(*self.words(), *words)

    def begin(self, state: HostNetworks) -> subprocess.Popen[str]:
        """Order a state, without waiting."""
        if self._plane is None:
            words = [*self.words(), sys.executable, data_plane_process.__file__, str(self.directory / "plane")]
            # One process group: a kill of nsenter's is one of its child too.
            self._plane = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
            )
        assert self._plane.stdin
        self._plane.stdin.write(msgspec.json.encode(state).decode() + "\n")
        self._plane.stdin.flush()
        return self._plane

    def apply(self, state: HostNetworks) -> None:
        plane = self.begin(state)
        assert plane.stdout
        assert plane.stdout.readline().strip() == "ok"

    def kill(self) -> None:
        """Kill the data plane's process."""
        if self._plane:
            os.killpg(self._plane.pid, 9)
            self._plane.wait()
            self._plane = None

    def guest(self, port: HostPort) -> PlaneGuest:
        guest = PlaneGuest(self, port)
        self.guests.append(guest)
        return guest

    def devices(self) -> set[str]:
        """Return the devices of the host itself."""
        links = msgspec.json.decode(self.run("ip", "-j", "link", "show"))
        return {each["ifname"] for each in links}

    def listens(self, kind: str, port: int) -> "subprocess.Popen[str]":
        """Answer each client at a port by its address; the caller ends it."""
        return _listener(self.words(), kind, port)

    def hears(self, address: str, port: int, seconds: float = HANG_S) -> str:
        """Return the address that a listener sees of this host; "nothing": there was no answer."""
        return self.run(sys.executable, "-c", TALK, address, str(port), "tcp", "", str(seconds)).strip()

    def namespaces(self) -> set[str]:
        return set(self.run("ls", "/run/netns").split())

    def close(self) -> None:
        for guest in self.guests:
            guest.close()
        self.kill()
        self._holder.kill()
        self._holder.wait()


@contextmanager
def plane_host() -> Iterator[PlaneHost]:
    if os.geteuid() != 0 or subprocess.run([*NAMESPACES, "true"], check=False, capture_output=True).returncode:
        missing("network namespaces need root", "sudo")
    for program, package in PROGRAMS.items():
        if not shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin"):
            missing(f"there is no command {program}", f"apt-get install {package}")
    directory = Path(tempfile.mkdtemp(prefix="wp"))
    directory.chmod(0o755)
    host = PlaneHost(directory)
    try:
        yield host
    finally:
        host.close()
        shutil.rmtree(directory, ignore_errors=True)


def only(network: HostNetwork, **further: object) -> HostNetworks:
    return HostNetworks(networks=(network,), **further)  # type: ignore[arg-type]


def _listener(inside: list[str], kind: str, port: int) -> "subprocess.Popen[str]":
    words = [*inside, sys.executable, "-c", LISTEN, kind, str(port)]
    listener = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert listener.stdout
    assert listener.stdout.readline().strip() == "ready"
    return listener


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stderr or done.stdout}"
    return done.stdout
