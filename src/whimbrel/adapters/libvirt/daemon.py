"""A private, rootless libvirtd with all its files under one directory: a host that needs no administrator.

Invariant: the daemon and its guests survive this process, even if it is killed; only `power_off` ends them. Several
daemons can run on one machine, and treat each other as different hosts.
Source: libvirt's session mode, which reads XDG_* and listens on a socket in XDG_RUNTIME_DIR.
"""

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import uuid
import zlib
from pathlib import Path

from whimbrel.adapters.qemu import durable_files, own_processes
from whimbrel.adapters.qemu.durable_files import Owner, in_thread
from whimbrel.domain.errors import Refused, Unavailable

INSTALL = "apt-get install qemu-system-x86 qemu-utils libvirt-daemon libvirt-daemon-driver-qemu libvirt-clients"
USERS = ("libvirt-qemu", "nobody")
"""The user of the daemon if this process is root: root's libvirtd would be the machine's own. The first that exists."""

PATH_MAX = 45
"""QEMU's sockets are deep below the directory, and a socket's path is limited to 107 bytes."""

STARTS_WITHIN_S = 20

LIBVIRTD_CONF = """\
host_uuid = "{host_uuid}"
auth_unix_rw = "none"
log_outputs = "3:file:{log}"
"""

# There is no virtlogd for consoles, and no security driver for guests of an unprivileged user.
QEMU_CONF = """\
security_driver = "none"
stdio_handler = "file"
migration_port_min = {port_min}
migration_port_max = {port_max}
"""

MIGRATION_PORTS = range(49152, 64512, 64)
"""First ports of ranges for live transfers, of which each daemon of a machine takes one, so that two seldom choose the
same port: libvirt checks that a port is free some time before QEMU uses it.
"""


class PrivateDaemon:
    """A libvirtd under `directory`. probes: a directory in which daemons may share QEMU's probed capabilities."""

    def __init__(self, directory: Path, probes: Path | None = None) -> None:
        self.directory = directory.resolve()
        if len(str(self.directory)) > PATH_MAX:
            raise Refused(f"{self.directory} is too long for libvirt's sockets: at most {PATH_MAX} characters")
        self._probes = probes or self.directory / "probes"
        self._user = _user()

    @property
    def uri(self) -> str:
        return f"qemu+unix:///session?socket={self._socket}"

    @property
    def guests_dir(self) -> Path:
        """Return the parent directory for guests: a directory that belongs to the daemon's user."""
        return self.directory / "host"

    @property
    def answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(str(self._socket)) == 0

    async def start(self) -> None:
        """Ensure that it runs. Raises: Refused: not installed; Unavailable: it does not start."""
        if self.answers:
            return
        program = shutil.which("libvirtd", path=os.defpath + os.pathsep + "/usr/sbin")
        if not program or not shutil.which("qemu-img"):
            raise Refused(f"libvirt and QEMU are not installed: {INSTALL}")
        await in_thread(self._make_files)
        await in_thread(lambda: self._launch(program))

    async def kill(self) -> None:
        """Kill the daemon and leave its guests running."""
        await own_processes.end(await own_processes.at_work("libvirtd", self._pid_file))

    async def power_off(self) -> None:
        """Kill the daemon and all its guests, like a power failure. Idempotent."""
        await self.kill()
        await own_processes.end(await own_processes.at_work("qemu-", self.directory))

    @property
    def _socket(self) -> Path:
        return self.directory / "run" / "libvirt" / "libvirt-sock"

    @property
    def _pid_file(self) -> Path:
        return self.directory / "libvirtd.pid"

    @property
    def _log(self) -> Path:
        return self.directory / "libvirtd.log"

    def _environment(self) -> dict[str, str]:
        places = {"CONFIG": "c", "CACHE": "cache", "DATA": "data", "STATE": "state"}
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.directory),
            "XDG_RUNTIME_DIR": str(self.directory / "run"),
            **{f"XDG_{name}_HOME": str(self.directory / place) for name, place in places.items()},
        }

    def _launch(self, program: str) -> None:
        command = [*self._as_user(), program, "--timeout", "0", "--pid-file", str(self._pid_file), "--daemon"]
        done = subprocess.run(command, env=self._environment(), capture_output=True, text=True, timeout=STARTS_WITHIN_S)
        if done.returncode:
            raise Unavailable(f"libvirtd does not start in {self.directory}: {done.stderr.strip() or self._log_end()}")

    def _make_files(self) -> None:
        config = self.directory / "c" / "libvirt"
        for path in (config, self.directory / "run", self.guests_dir, self._probes):
            durable_files.make_directory(path, self._user)
        durable_files.hand_over(self.directory, self._user)
        (self.directory / "run").chmod(0o700)
        host_uuid = uuid.uuid5(uuid.NAMESPACE_URL, str(self.directory))
        self._write(config / "libvirtd.conf", LIBVIRTD_CONF.format(host_uuid=host_uuid, log=self._log))
        port_min = MIGRATION_PORTS[zlib.crc32(str(self.directory).encode()) % len(MIGRATION_PORTS)]
        port_max = port_min + MIGRATION_PORTS.step - 1
        self._write(config / "qemu.conf", QEMU_CONF.format(port_min=port_min, port_max=port_max))
        cache = self.directory / "cache" / "libvirt" / "qemu"
        durable_files.make_directory(cache, self._user)
        with contextlib.suppress(FileExistsError):
            (cache / "cache").symlink_to(self._probes)

    def _write(self, settings: Path, content: str) -> None:
        """Write settings that the daemon's user can read, whatever the umask of this process is."""
        durable_files.write(settings, content.encode(), self._user)

    def _as_user(self) -> list[str]:
        if not self._user:
            return []
        return ["setpriv", "--reuid", str(self._user.uid), "--regid", str(self._user.gid), "--clear-groups"]

    def _log_end(self) -> str:
        return self._log.read_text(errors="replace")[-500:] if self._log.exists() else "it said nothing"


def _user() -> Owner | None:
    if os.geteuid() != 0:
        return None
    for name in USERS:
        with contextlib.suppress(KeyError):
            found = pwd.getpwnam(name)
            return Owner(found.pw_uid, found.pw_gid)
    raise Refused(f"a private libvirtd needs a user that is not root: one of {', '.join(USERS)}")
