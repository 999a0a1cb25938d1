"""A Neutron, a Cinder and hypervisors as tables: fakes of what the doctor reads beside Nova's databases."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec

from tests.doctor.nova_copy import OLD
from whimbrel.doctor.guest_records import Guest
from whimbrel.doctor.service_records import Attachment, Binding, Port, Volume

T = TypeVar("T")

PER_PAGE = 2


class PortsCopy:
    """Implements PortRecords."""

    def __init__(self) -> None:
        self.rows: dict[str, Port] = {}
        self.others: dict[str, list[str]] = {}  # hosts of inactive bindings, by port
        self.without_active: set[str] = set()

    def add(self, id: str, server: str, host: str, at: float = OLD, vif_type: str = "ovs") -> None:
        self.rows[id] = Port(
            id=id, server=server, host=host, vif_type=vif_type, status="ACTIVE", revision=1, touched=at
        )

    def change(self, id: str, **values: object) -> None:
        row = self.rows[id]
        self.rows[id] = msgspec.structs.replace(row, revision=row.revision + 1, **values)

    def all(self) -> Iterator[Sequence[Port]]:
        yield from _pages(list(self.rows.values()))

    def some(self, ids: Sequence[str]) -> Sequence[Port]:
        return [self.rows[id] for id in ids if id in self.rows]

    def of_servers(self, ids: Sequence[str]) -> Sequence[Port]:
        return [each for each in self.rows.values() if each.server in ids]

    def also_bound_to(self, host: str) -> Iterator[Sequence[str]]:
        yield from _pages([id for id, hosts in self.others.items() if host in hosts])

    def bindings(self, port: str) -> Sequence[Binding]:
        inactive = [Binding(host, "INACTIVE") for host in self.others.get(port, [])]
        active = [] if port in self.without_active else [Binding(self.rows[port].host, "ACTIVE")]
        return sorted([*active, *inactive])


class VolumesCopy:
    """Implements VolumeRecords."""

    def __init__(self) -> None:
        self.volume_rows: dict[str, Volume] = {}
        self.attachment_rows: dict[str, Attachment] = {}
        self.hosts: dict[str, str] = {}  # of attachments

    def add(self, id: str, status: str = "in-use", at: float = OLD, migration: str = "") -> None:
        self.volume_rows[id] = Volume(id=id, name="", status=status, hosts={}, touched=at, migration=migration)

    def attach(self, id: str, volume: str, server: str | None, status: str = "attached", host: str = "n1") -> None:
        self.hosts[id] = host
        self.attachment_rows[id] = Attachment(id=id, volume=volume, server=server, status=status)

    def volumes(self) -> Iterator[Sequence[Volume]]:
        yield from _pages([self._seen(each) for each in self.volume_rows.values()])

    def volume(self, id: str) -> Volume | None:
        return self._seen(self.volume_rows[id]) if id in self.volume_rows else None

    def _seen(self, volume: Volume) -> Volume:
        complete = [each.id for each in self.attachments_of(volume.id) if each.status == "attached"]
        return msgspec.structs.replace(volume, hosts={id: self.hosts[id] for id in complete})

    def attachments(self) -> Iterator[Sequence[Attachment]]:
        yield from _pages(list(self.attachment_rows.values()))

    def attachment(self, id: str) -> Attachment | None:
        return self.attachment_rows.get(id)

    def attachments_of(self, volume: str) -> Sequence[Attachment]:
        return [each for each in self.attachment_rows.values() if each.volume == volume]

    def attachments_for(self, server: str) -> Sequence[Attachment]:
        return [each for each in self.attachment_rows.values() if each.server == server]


class GuestsCopy:
    """Implements GuestRecords."""

    def __init__(self, *hosts: str) -> None:
        self.hosts: Sequence[str] = list(hosts)
        self.rows: dict[str, dict[str, Guest]] = {host: {} for host in hosts}

    def add(self, host: str, id: str, state: str = "running", *, is_of_nova: bool = True) -> None:
        self.rows[host][id] = Guest(
            id=id, name=f"instance-{id[:8]}", state=state, is_active=state != "shut off", is_of_nova=is_of_nova
        )

    def guests(self, host: str) -> Sequence[Guest]:
        return sorted(self.rows[host].values(), key=lambda each: each.id)

    def address(self, host: str) -> str:
        return f"test://{host}"


def _pages(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(rows), PER_PAGE):
        yield rows[start : start + PER_PAGE]
