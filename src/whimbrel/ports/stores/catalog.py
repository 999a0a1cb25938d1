"""Flavors, keypairs, quota limits and aggregates. Each method is one transaction."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from ssl import PEM_cert_to_DER_cert
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
    # Resources of the former nova-network: shown below 2.36, never counted.
    "fixed_ips": -1,
    "floating_ips": -1,
    "security_groups": -1,
    "security_group_rules": -1,
}
"""Every quota resource with its default limit; -1: none."""


GENERATED = "Generated-by-Whimbrel"
"""The comment in certificates that were generated for their users, and of SSH keys in older releases."""

GENERATED_SSH = "Generated-by-Nova"
"""The comment of SSH keys that were generated for their users: Nova's, by which scripts find them."""


def is_generated(public_key: str) -> bool:
    """Check whether a key was generated, here or by a Nova. Certificates of older releases do not tell."""
    if not public_key.startswith("-----BEGIN CERTIFICATE"):
        return public_key.endswith((GENERATED_SSH, GENERATED))
    try:
        return GENERATED.encode() in PEM_cert_to_DER_cert(public_key)
    except ValueError:  # text around the certificate: the user sent it
        return False


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

    async def by_name(self, name: str) -> Flavor | None: ...

    async def all(self) -> list[Flavor]:
        """Return all, in the order of creation; callers filter by visibility."""

    async def create(self, flavor: Flavor, now: float) -> None:
        """Raises: Conflict: id or name taken."""

    async def update(self, flavor_id: str, description: str | None) -> Flavor: ...

    async def delete(self, flavor_id: str) -> None:
        """Raises: NotFound."""

    async def change_extra_specs(self, flavor_id: str, specs: Mapping[str, str | None]) -> dict[str, str]:
        """Merge into its extra specs (None removes a key) and return them all. Raises: NotFound."""

    async def projects(self, flavor_id: str) -> list[ProjectId]:
        """Return the projects with access to a private flavor."""

    async def granted(self, project_id: ProjectId) -> frozenset[str]:
        """Return the ids of the private flavors that a project has access to."""

    async def has_access(self, flavor_id: str, project_id: ProjectId) -> bool:
        """Check whether a project was granted a private flavor."""

    async def grant(self, flavor_id: str, project_id: ProjectId) -> None:
        """Raises: Conflict: already granted; NotFound: no such flavor."""

    async def revoke(self, flavor_id: str, project_id: ProjectId) -> None:
        """Raises: NotFound: not granted."""


class Keypairs(Protocol):
    async def get(self, user_id: UserId, name: str) -> Keypair:
        """Raises: NotFound."""

    async def of_user(self, user_id: UserId) -> list[Keypair]:
        """Return a user's keypairs, by name."""

    async def ids(self) -> list[tuple[int, float]]:
        """Return number and time of creation of all users' keypairs, by number: together they are of one keypair ever.

        SQLite gives the number of a deleted keypair, if it was the highest, to the next one.
        """

    async def numbered(self, numbers: Sequence[int]) -> list[Keypair]:
        """Return the keypairs with these numbers, by number; without those that are not there any more."""

    async def mark(self) -> tuple[int, int, float]:
        """Return the count, the highest number and the latest time of creation: some keypairs changed if it did."""

    async def create(self, keypair: Keypair, limit: int) -> Keypair:
        """Add a keypair and return it with its number. limit: keypairs per user, -1: none.

        Raises: Conflict: name taken; OverQuota.
        """

    async def delete(self, user_id: UserId, name: str) -> None:
        """Raises: NotFound."""


class Quotas(Protocol):
    @property
    def are_settable(self) -> bool:
        """Whether limits are set here; False: they are set in Keystone, and the methods that set some do nothing."""

    async def limits(self, project_id: ProjectId, user_id: UserId | None = None) -> dict[str, int]:
        """Return the effective limits: the project's own, else the default class's, else Nova's defaults.

        Raises, here and below: Unavailable: Keystone has the limits and does not answer.
        """

    async def shown(self, project_id: ProjectId, user_id: UserId | None = None) -> dict[str, int]:
        """Return the limits as users see them."""

    async def resource_limits(self, project_id: ProjectId, classes: Collection[str]) -> dict[str, int]:
        """Return the limits on the amounts that a project has of these resource classes in Placement.

        Classes without a limit, and those that are counted as cores and ram, are left out.
        """

    async def set_limits(self, project_id: ProjectId, limits: Mapping[str, int], user_id: UserId | None = None) -> None:
        """Set these limits of a project, or of one of its users; other limits stay. -1: no limit."""

    async def reset(self, project_id: ProjectId, user_id: UserId | None = None) -> None:
        """Remove the limits of a project and its users, or of one of its users."""

    async def class_limits(self, name: str) -> dict[str, int]:
        """Return the limits of a class, defaults included."""

    async def set_class_limits(self, name: str, limits: Mapping[str, int]) -> None:
        """Set these limits of a class; class `default` applies to every project without its own limits."""


class Zoning(msgspec.Struct, frozen=True, kw_only=True):
    """The zones of hosts as reported to placement before a change of aggregates."""

    zones: Mapping[HostName, str]  # new zones of the hosts; empty: no aggregate sets one
    repairs: int  # before the report to placement


class Aggregates(Protocol):
    @property
    def changes(self) -> int:
        """Count the changes of aggregates through this object."""

    async def all(self) -> list[Aggregate]:
        """Return all, by number."""

    async def with_zone_names(self) -> tuple[list[Aggregate], dict[str, str]]:
        """Return all, by number, and the names of all zones by id, both of one moment."""

    async def get(self, number: int) -> Aggregate:
        """Raises: NotFound."""

    async def create(self, name: str, uuid: str, metadata: Mapping[str, str], now: float) -> Aggregate:
        """Raises: Conflict: name taken."""

    async def rename(
        self,
        number: int,
        name: str,
        now: float,
        metadata: Mapping[str, str | None] | None = None,
        zoning: Zoning | None = None,
    ) -> Aggregate:
        """Rename the aggregate and merge metadata, in one write.

        Raises: NotFound; Conflict: name taken; otherwise as `set_metadata`.
        """

    async def set_metadata(
        self, number: int, metadata: Mapping[str, str | None], now: float, zoning: Zoning | None = None
    ) -> Aggregate:
        """Merge metadata; None removes a key.

        zoning, here and below: the expected change of zones; Conflict if the actual one differs.
        Raises: NotFound; Refused: a host of it is in another zone; Conflict.
        """

    async def delete(self, number: int) -> None:
        """Raises: NotFound; Refused: it has hosts."""

    async def add_host(self, number: int, host: HostName, now: float, zoning: Zoning | None = None) -> Aggregate:
        """Raises: NotFound: no such aggregate; Conflict: the host is already in it, or in another zone."""

    async def add_hosts(
        self, number: int, hosts: Sequence[HostName], now: float, zoning: Zoning | None = None
    ) -> Aggregate:
        """Add several hosts, all or none; see `add_host`."""

    async def remove_host(self, number: int, host: HostName, now: float, zoning: Zoning | None = None) -> Aggregate:
        """Raises: NotFound: no such aggregate, or the host is not in it."""

    async def zone_mends(self) -> int:
        """Count the corrections of zones in placement."""

    async def repair_zones(self) -> None:
        """Refuse changes of zones that were reported to placement before this call."""


def zones_by_host(aggregates: Iterable[Aggregate]) -> dict[HostName, str]:
    """Return the zones of hosts that an aggregate puts into one (the first such aggregate counts)."""
    zones: dict[HostName, str] = {}
    for host, zone in ((host, each.zone) for each in aggregates if each.zone for host in each.hosts):
        zones.setdefault(host, zone)
    return zones


def zone_of(host: HostName, aggregates: Sequence[Aggregate]) -> str | None:
    """Return the zone that aggregates put a host into, None for the default zone."""
    return next((a.zone for a in aggregates if a.zone and host in a.hosts), None)
