"""Flavors, keypairs, quota limits and aggregates: what operators and users set up. Each method is one transaction."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from whimbrel.domain.flavor import Flavor
from whimbrel.domain.host import Aggregate
from whimbrel.domain.ids import HostName, ProjectId, UserId

DEFAULT_QUOTA_CLASS: Final = "default"

DEFAULT_LIMITS: Final[Mapping[str, int]] = {
    "instances": 10,
    "cores": 20,
    "ram": 51200,  # MiB
    "metadata_items": 128,
    "injected_files": 5,
    "injected_file_content_bytes": 10240,
    "injected_file_path_bytes": 255,
    "key_pairs": 100,
    "server_groups": 10,
    "server_group_members": 10,
    # Resources of a network service that was once part of the compute API: shown below 2.36, never counted.
    "fixed_ips": -1,
    "floating_ips": -1,
    "security_groups": -1,
    "security_group_rules": -1,
}
"""Every quota resource, with the limit that holds where nobody set another; -1: none."""


class Keypair(msgspec.Struct, frozen=True, kw_only=True):
    user_id: UserId
    name: str
    type: str = "ssh"  # "ssh" | "x509"
    public_key: str
    fingerprint: str
    created_at: float = 0.0
    number: int = 0


class Flavors(Protocol):
    async def get(self, flavor_id: str) -> Flavor:
        """Raises: NotFound."""
        ...

    async def by_name(self, name: str) -> Flavor | None: ...

    async def all(self) -> list[Flavor]:
        """List all, in the order in which they were created; callers filter by what may be seen."""
        ...

    async def create(self, flavor: Flavor, now: float) -> None:
        """Raises: Conflict: id or name taken."""
        ...

    async def update(self, flavor_id: str, description: str | None) -> Flavor: ...

    async def delete(self, flavor_id: str) -> None:
        """Raises: NotFound."""
        ...

    async def change_extra_specs(self, flavor_id: str, specs: Mapping[str, str | None]) -> dict[str, str]:
        """Merge into its extra specs, None removes a key; give the whole. Raises: NotFound."""
        ...

    async def projects(self, flavor_id: str) -> list[ProjectId]:
        """List projects with access to a private flavor."""
        ...

    async def granted(self, project_id: ProjectId) -> frozenset[str]:
        """List the ids of the private flavors that a project has access to."""
        ...

    async def has_access(self, flavor_id: str, project_id: ProjectId) -> bool:
        """Tell whether a project was granted a private flavor."""
        ...

    async def grant(self, flavor_id: str, project_id: ProjectId) -> None:
        """Raises: Conflict: has it; NotFound: no such flavor."""
        ...

    async def revoke(self, flavor_id: str, project_id: ProjectId) -> None:
        """Raises: NotFound: does not have it."""
        ...


class Keypairs(Protocol):
    async def get(self, user_id: UserId, name: str) -> Keypair:
        """Raises: NotFound."""
        ...

    async def of_user(self, user_id: UserId) -> list[Keypair]:
        """List a user's keypairs, in the order of their names."""
        ...

    async def create(self, keypair: Keypair, limit: int) -> Keypair:
        """Add one and give it its number. limit: how many a user may have, -1: any. Raises: Conflict: name taken;
        OverQuota."""
        ...

    async def delete(self, user_id: UserId, name: str) -> None:
        """Raises: NotFound."""
        ...


class Quotas(Protocol):
    async def limits(self, project_id: ProjectId, user_id: UserId | None = None) -> dict[str, int]:
        """Give every limit that holds (the project's own, else the default class's, else Nova's defaults)."""
        ...

    async def set_limits(self, project_id: ProjectId, limits: Mapping[str, int], user_id: UserId | None = None) -> None:
        """Set these limits of a project, or of one of its users; the others stay. -1: no limit."""
        ...

    async def reset(self, project_id: ProjectId, user_id: UserId | None = None) -> None:
        """Forget what was set for a project and its users, or for one user of it."""
        ...

    async def class_limits(self, name: str) -> dict[str, int]:
        """Give every limit of a class; those that were not set are the defaults."""
        ...

    async def set_class_limits(self, name: str, limits: Mapping[str, int]) -> None:
        """Set these limits of a class; the class `default` holds for every project that has none of its own."""
        ...


class Zoning(msgspec.Struct, frozen=True, kw_only=True):
    """What placement was told of the zones of hosts before they are changed here."""

    zones: Mapping[HostName, str]  # of the hosts whose zone will be another; empty: no aggregate gives them one
    repairs: int  # as it was before placement was told


class Aggregates(Protocol):
    @property
    def changes(self) -> int:
        """Tell how often aggregates were changed by way of this very object."""
        ...

    async def all(self) -> list[Aggregate]:
        """List all, in the order of their numbers."""
        ...

    async def get(self, number: int) -> Aggregate:
        """Raises: NotFound."""
        ...

    async def create(self, name: str, uuid: str, metadata: Mapping[str, str], now: float) -> Aggregate:
        """Raises: Conflict: name taken."""
        ...

    async def rename(
        self,
        number: int,
        name: str,
        now: float,
        metadata: Mapping[str, str | None] | None = None,
        zoning: Zoning | None = None,
    ) -> Aggregate:
        """Give another name and, in the same write, merge metadata.

        Raises: NotFound; Conflict: name taken; otherwise as `set_metadata`.
        """
        ...

    async def set_metadata(
        self, number: int, metadata: Mapping[str, str | None], now: float, zoning: Zoning | None = None
    ) -> Aggregate:
        """Merge; None removes a key.

        zoning, here and below: what is to come of it for zones, and Conflict where that is not so.
        Raises: NotFound; Refused: a host of it is in another zone; Conflict.
        """
        ...

    async def delete(self, number: int) -> None:
        """Raises: NotFound; Refused: it has hosts."""
        ...

    async def add_host(self, number: int, host: HostName, now: float, zoning: Zoning | None = None) -> Aggregate:
        """Raises: NotFound: no such aggregate; Conflict: the host is in, or in another zone."""
        ...

    async def add_hosts(
        self, number: int, hosts: Sequence[HostName], now: float, zoning: Zoning | None = None
    ) -> Aggregate:
        """Add several hosts, all or none; see `add_host`."""
        ...

    async def remove_host(self, number: int, host: HostName, now: float, zoning: Zoning | None = None) -> Aggregate:
        """Raises: NotFound: no such aggregate, or the host is not in it."""
        ...

    async def zone_mends(self) -> int:
        """Tell how often placement's knowledge of zones was put right."""
        ...

    async def repair_zones(self) -> None:
        """Refuse, from now on, changes of zones of which placement was told before."""
        ...


def zones_by_host(aggregates: Iterable[Aggregate]) -> dict[HostName, str]:
    """Give the zone of each host that an aggregate puts into one, the first that does; else it is the default zone."""
    zones: dict[HostName, str] = {}
    for host, zone in ((host, each.zone) for each in aggregates if each.zone for host in each.hosts):
        zones.setdefault(host, zone)
    return zones


def zone_of(host: HostName, aggregates: Sequence[Aggregate]) -> str | None:
    """Give the zone that a host is in by its aggregates, None: the default zone."""
    return next((a.zone for a in aggregates if a.zone and host in a.hosts), None)
