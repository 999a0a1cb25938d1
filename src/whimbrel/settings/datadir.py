"""The data directory: all persistent state of a cloud on this machine, and the lock of its user process.

Invariant: one `whimbrel up` at a time uses a directory; the kernel releases the lock when the process dies. Only its
owner can read its contents (see `adapters.file_modes`), and files are written atomically.
"""

import errno
import fcntl
import os
import secrets
import socket
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec
import platformdirs

from whimbrel.adapters import file_modes
from whimbrel.domain.errors import NotFound, Refused
from whimbrel.settings.private_files import write_private

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""Linux: a new value at each boot, unique to the machine."""

DEMO_CLOUD = "whimbrel"
ADMIN_CLOUD = "whimbrel-admin"
INTERNAL = "internal"  # the path of internal endpoints
BACKUP_DRAFT = "backup.json.part"  # marks a directory in which a backup is in progress or incomplete

ADVICE = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room",
    errno.EFBIG: "make room",
    errno.EEXIST: "move that file away",
    errno.ENOTDIR: "move the file on its path away",
}
"""What a user can do about an error of a write; about any other one: make it writable."""

Content = TypeVar("Content")

CLOUDS = """\
# For openstack and every other client of OpenStack: export OS_CLIENT_CONFIG_FILE={file}
clouds:
  {demo}:
    region_name: RegionOne
{ca}    auth:
      auth_url: {url}/identity/v3
      username: demo
      password: {demo_password}
      project_name: demo
      user_domain_id: default
      project_domain_id: default
  {admin}:
    region_name: RegionOne
{ca}    auth:
      auth_url: {url}/identity/v3
      username: admin
      password: {admin_password}
      project_name: demo  # so that names of its servers can be used; an administrator here is one everywhere
      user_domain_id: default
      project_domain_id: default
"""


class Running(msgspec.Struct, frozen=True):
    """The addresses of the process that serves this directory, and what other processes need to join it."""

    url: str
    pid: int
    database_url: str
    cloud_file: str | None  # None: the default cloud

    def agents_url(self, cell: str) -> str:
        """Return the endpoint of a cell's agents, for other processes of this cloud."""
        return f"{self.url}/{INTERNAL}/cells/{cell}"


class DataDir:
    """Names of the files in the directory, and methods that write them."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()
        self.clouds = self.path / "clouds.yaml"
        self._passwords = self.path / "passwords.json"
        self._running = self.path / "running.json"
        self._agents_secret = self.path / "agents.secret"
        self._metrics_secret = self.path / "metrics.secret"
        self._cloud_id = self.path / "cloud.id"
        self.agents = self.path / "agents"
        self.images = self.path / "images"
        self.volumes = self.path / "volumes"

    @property
    def database_url(self) -> str:
        """Return the default URL of the databases."""
        return f"sqlite:///{self.path / 'db'}"

    @property
    def settings(self) -> tuple[Path, ...]:
        """Return the small files that a start elsewhere needs: secrets, and the port at which volumes are served.

        running.json is not one of them: it would direct the clients and conductors of a copy to the original cloud.
        """
        return self._passwords, self._agents_secret, self._metrics_secret, self.clouds, self.path / "nbd" / "port"

    # Use

    def make(self, guests: Collection[Path] = ()) -> None:
        """Create the directory, or restrict the modes of its contents. Raises: Refused.

        guests: directories of real guests, for whose modes the hypervisors are responsible.
        """
        with _os_errors_reported("make or write", self.path):
            self.path.mkdir(parents=True, exist_ok=True, mode=file_modes.DIRECTORY)
            file_modes.narrow_tree(self.path, guests)
            if not os.access(self.path, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if (self.path / BACKUP_DRAFT).exists():
            raise Refused(f"{self.path} is an incomplete backup: use a complete one (whimbrel backup verify)")

    @contextmanager
    def used_as(self, role: str, option: str = "--data-dir") -> Iterator[str]:
        """Lock the directory for a role; yield the identity of the lock.

        Of two processes with the same lock one is dead. option: the option to change if the directory is locked.

        Raises: Refused: another process has the lock.
        """
        file = self.path / f"{role}.lock"
        with _os_errors_reported("write", file):
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, file_modes.FILE)
        try:
            self._lock(descriptor, role, option)
            with _os_errors_reported("write", file):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            yield _lock_id(descriptor)
        finally:
            os.close(descriptor)

    def _lock(self, descriptor: int, role: str, option: str) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 20, 0).decode().strip() or "unknown"
            raise Refused(
                f"{self.path} is in use by another whimbrel {role} (process {holder}): stop that one, or give this one"
                f" another {option}"
            ) from None

    # Shared by the processes of one cloud

    def announce(self, running: Running, ca_file: str | None = None) -> None:
        """Write the addresses for other processes and clients. ca_file: of the certificate at the URL."""
        self._write(self._running, msgspec.json.encode(running))
        self.write_clouds(running.url, ca_file)

    def write_clouds(self, url: str, ca_file: str | None = None) -> None:
        """Write clouds.yaml, if the passwords are here. url: of the HTTP front ends. ca_file: of their certificate."""
        passwords = self.passwords()
        if "demo" in passwords and "admin" in passwords:
            text = CLOUDS.format(
                file=self.clouds,
                url=url,
                ca=f"    cacert: {ca_file}\n" if ca_file else "",
                demo=DEMO_CLOUD,
                admin=ADMIN_CLOUD,
                demo_password=passwords["demo"],
                admin_password=passwords["admin"],
            )
            self._write(self.clouds, text.encode())

    def has_run(self) -> bool:
        """Check whether it is the directory of a `whimbrel up`, not only of passwords."""
        return self._running.exists()

    def running(self) -> Running:
        """Read the addresses. Raises: NotFound: no `whimbrel up` was ever ready here; Refused: the file is damaged."""
        running = _read(self._running, Running)
        if running is None:
            raise NotFound(
                f"no cloud has been started in {self.path}: start one with: whimbrel up --data-dir {self.path}"
            )
        return running

    def write_passwords(self, passwords: Mapping[str, str]) -> None:
        """Write the generated passwords: user name -> password."""
        self._write(self._passwords, msgspec.json.format(msgspec.json.encode(dict(passwords))))

    def passwords(self) -> dict[str, str]:
        """Read the passwords; empty before the first start. Raises: Refused: the file is damaged."""
        return _read(self._passwords, dict[str, str]) or {}

    def cloud_id(self) -> str | None:
        """Return the id of the cloud whose files are here; None: none has used this directory yet."""
        return self._cloud_id.read_text().strip() if self._cloud_id.exists() else None

    def remember_cloud(self, cloud_id: str) -> None:
        self._write(self._cloud_id, f"{cloud_id}\n".encode())

    def agents_secret(self) -> str:
        """Return the secret of the agents' endpoint, created on first use."""
        return self._secret(self._agents_secret)

    def metrics_secret(self) -> str:
        """Return the secret that Prometheus sends, created on first use."""
        return self._secret(self._metrics_secret)

    def _secret(self, file: Path) -> str:
        if not file.exists():
            self._write(file, secrets.token_urlsafe(32).encode())
        return file.read_text()

    def _write(self, file: Path, content: bytes) -> None:
        """Write a file atomically, readable by its owner only. Raises: Refused."""
        with _os_errors_reported("write", file):
            write_private(file, content)


def _lock_id(descriptor: int) -> str:
    """Return the identity of a file lock: the file, and the boot of the kernel that holds the lock."""
    file = os.fstat(descriptor)
    try:
        boot = BOOT_ID.read_text().strip()
    except OSError:
        boot = socket.gethostname()
    return f"{boot}/{file.st_dev}/{file.st_ino}"


def default_path() -> Path:
    """Return the default directory."""
    return Path(platformdirs.user_data_dir("whimbrel", appauthor=False))


def _read(file: Path, kind: type[Content]) -> Content | None:
    """Read a file of this program; None: it does not exist. Raises: Refused."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(f"cannot read {file}: {error.strerror}; make it readable") from None
    except msgspec.DecodeError as error:
        raise Refused(f"{file} is damaged ({error}): put back what it was") from None


@contextmanager
def _os_errors_reported(doing: str, what: Path) -> Iterator[None]:
    """Convert OSErrors to errors for users."""
    try:
        yield
    except OSError as error:
        advice = ADVICE.get(error.errno or 0, "make it writable")
        raise Refused(
            f"cannot {doing} {what}: {error.strerror}; {advice}, or name another directory with --data-dir"
        ) from None
