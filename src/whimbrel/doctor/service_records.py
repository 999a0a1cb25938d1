"""What Neutron and Cinder say about ports and volumes of servers. Times are seconds since 1970."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

OF_COMPUTE = "compute:"
"""Beginning of the device_owner of a server's port."""


class Port(msgspec.Struct, frozen=True, kw_only=True):
    """A port of a server. host: of its active binding; "": none. revision: grows with each change.

    wants: bandwidth and packets that it asks for, by resource class.
    """

    id: str
    server: str
    host: str
    vif_type: str
    status: str
    revision: int
    touched: float
    wants: Mapping[str, int] = {}


class Binding(msgspec.Struct, frozen=True, order=True):
    """One of the bindings of a port. status: ACTIVE or INACTIVE."""

    host: str
    status: str


class PortRecords(Protocol):
    """Neutron's ports of servers, of all projects. Raises, all calls: Refused; Unavailable."""

    def all(self) -> Iterator[Sequence[Port]]:
        """Yield them in pages."""

    def some(self, ids: Sequence[str]) -> Sequence[Port]:
        """Return those of these that exist."""

    def of_servers(self, ids: Sequence[str]) -> Sequence[Port]:
        """Return those of these servers."""

    def also_bound_to(self, host: str) -> Iterator[Sequence[str]]:
        """Yield the ids of ports that have a binding to a host, and an active one to another."""

    def bindings(self, port: str) -> Sequence[Binding]:
        """Return all bindings of a port, sorted; none if it does not exist."""


class Volume(msgspec.Struct, frozen=True, kw_only=True):
    """A volume. hosts: of its complete attachments, by their ids. touched: when its state was last changed.

    migration: Cinder's migration_status: of the volume that is copied, a word; of its copy, `target:` and its id.
    """

    id: str
    name: str
    status: str
    hosts: Mapping[str, str]
    touched: float
    migration: str = ""

    @property
    def is_attached(self) -> bool:
        return bool(self.hosts)

    @property
    def migrates(self) -> bool:
        return self.migration in ("starting", "migrating", "completing")


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """An attachment of a volume. server: None: of something that is no server."""

    id: str
    volume: str
    server: str | None
    status: str


class VolumeRecords(Protocol):
    """Cinder's volumes and attachments, of all projects. Raises, all calls: Refused; Unavailable."""

    def volumes(self) -> Iterator[Sequence[Volume]]:
        """Yield all volumes in pages."""

    def volume(self, id: str) -> Volume | None: ...

    def attachments(self) -> Iterator[Sequence[Attachment]]:
        """Yield all attachments in pages."""

    def attachment(self, id: str) -> Attachment | None: ...

    def attachments_of(self, volume: str) -> Sequence[Attachment]: ...

    def attachments_for(self, server: str) -> Sequence[Attachment]: ...
