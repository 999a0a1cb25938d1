"""The directory of an agent on its own machine: its private key, and what it was given when its host joined.

`whimbrel agent join` writes it, `whimbrel agent` reads it. The private key never leaves it. Invariant: a key replaces
another one only after the cloud has admitted it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from whimbrel.adapters import file_modes
from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.ids import CellName, HostName
from whimbrel.settings.private_files import write_private

DEFAULT = Path("/var/lib/whimbrel/agent")


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    """What a host was given when it joined. A field that a newer program has written is ignored."""

    host: HostName
    cell: CellName
    bus_urls: tuple[str, ...]  # such as "tls://bus.example.org:4222"
    jwt: str  # admits the host's key to the bus


class AgentDir:
    """Names of the files in the directory, and methods that read and write them."""

    def __init__(self, path: Path = DEFAULT) -> None:
        self.path = path.expanduser().absolute()
        self.seed_file = self.path / "seed"
        self.new_seed_file = self.path / "seed.new"
        self.membership_file = self.path / "agent.json"
        self._ca_file = self.path / "bus-ca.pem"

    def membership(self) -> Membership:
        """Raises: NotFound: the host has not joined; Refused: the file is damaged or cannot be read."""
        try:
            return msgspec.json.decode(self._read(self.membership_file), type=Membership)
        except msgspec.DecodeError as error:
            raise Refused(
                f"{self.membership_file} is damaged ({error}): put it back as it was, or invite the host again"
            ) from None

    def seed(self) -> bytes:
        """Return the private key, an nkey seed. Raises: NotFound: the host has not joined; Refused."""
        return self._read(self.seed_file).strip()

    @property
    def ca_file(self) -> Path | None:
        """Return the file with the certificates that the bus is trusted by; None: those of the system."""
        return self._ca_file if self._ca_file.exists() else None

    def keep_new_seed(self, seed: bytes) -> None:
        """Make the directory, and store a private key that the cloud does not know yet. Raises: Refused."""
        with self._os_errors_reported("make or write"):
            self.path.mkdir(parents=True, exist_ok=True, mode=file_modes.DIRECTORY)
            file_modes.narrow(self.path, file_modes.DIRECTORY)
            write_private(self.new_seed_file, seed)

    def complete(self, membership: Membership, ca_pem: str) -> None:
        """Use the new key from now on. ca_pem: of the bus; "": the system trusts its certificate. Raises: Refused."""
        with self._os_errors_reported("write"):
            if ca_pem:
                write_private(self._ca_file, ca_pem.encode())
            else:
                self._ca_file.unlink(missing_ok=True)
            self.new_seed_file.replace(self.seed_file)
            write_private(self.membership_file, msgspec.json.format(msgspec.json.encode(membership)))

    def renew(self, jwt: str) -> None:
        """Replace the claims that admit the host's key to the bus. Raises: Refused."""
        renewed = msgspec.structs.replace(self.membership(), jwt=jwt)
        with self._os_errors_reported("write"):
            write_private(self.membership_file, msgspec.json.format(msgspec.json.encode(renewed)))

    def _read(self, file: Path) -> bytes:
        try:
            return file.read_bytes()
        except FileNotFoundError:
            raise NotFound(
                f"no host has joined from {self.path}: run `whimbrel host invite` where you administer the cloud, and"
                " the `whimbrel agent join` that it prints here"
            ) from None
        except OSError as error:
            raise Refused(f"cannot read {file}: {error.strerror}; make it readable") from None

    @contextmanager
    def _os_errors_reported(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Refused(
                f"cannot {doing} {self.path}: {error.strerror}; make it writable, or name another directory with --dir"
            ) from None
