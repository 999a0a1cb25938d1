"""Quotas from the limits of Keystone.

Invariant: what Keystone answers is trusted for ten seconds; a change there counts after that time at the latest.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping

import msgspec

from whimbrel.adapters.openstack.answers import error_of, inside
from whimbrel.adapters.openstack.own_token import OwnToken
from whimbrel.adapters.openstack.service_client import Query, Service
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.domain.quota_settings import QuotaRules
from whimbrel.ports.clock import Clock
from whimbrel.ports.services.unified_limits import UnifiedLimits
from whimbrel.ports.stores.catalog import DEFAULT_LIMITS

TRUSTED_S = 10.0
MOST_PROJECTS = 10_000

OF_PROJECTS = {"instances": "servers", "cores": "class:VCPU", "ram": "class:MEMORY_MB"}
"""Quotas of which projects may have limits of their own, by their names here."""

REGISTERED = {
    name: name if name.startswith("server_") else f"server_{name}"
    for name in (
        "metadata_items",
        "injected_files",
        "injected_file_content_bytes",
        "injected_file_path_bytes",
        "key_pairs",
        "server_groups",
        "server_group_members",
    )
}
"""Quotas whose registered limit is that of every project, as in Nova."""

COUNTED_HERE = frozenset(("VCPU", "MEMORY_MB"))
"""Resource classes that are quotas of their own, which the directory counts."""


class _Registered(msgspec.Struct):
    resource_name: str
    default_limit: int
    region_id: str | None = None


class _Limit(msgspec.Struct):
    resource_name: str
    resource_limit: int
    region_id: str | None = None


class KeystoneLimits:
    """Implements ports.services.unified_limits.UnifiedLimits. service: Keystone, with the role `admin` or `service`.

    region: of the cloud; None: the only one.
    """

    def __init__(self, service: Service, token: OwnToken, region: str | None) -> None:
        self._service = service
        self._token = token
        self._region = region

    async def registered(self) -> dict[str, int]:
        query = [("service_id", await self._token.service_id("compute"))]
        found = inside(
            "identity", "registered_limits", await self._read("/v3/registered_limits", query), list[_Registered]
        )
        limits = sorted(found, key=lambda each: each.region_id or "")
        return {each.resource_name: each.default_limit for each in limits if self._is_here(each.region_id)}

    async def of_project(self, project_id: ProjectId) -> dict[str, int]:
        query = [("service_id", await self._token.service_id("compute")), ("project_id", project_id)]
        found = inside("identity", "limits", await self._read("/v3/limits", query), list[_Limit])
        limits = sorted(found, key=lambda each: each.region_id or "")
        return {each.resource_name: each.resource_limit for each in limits if self._is_here(each.region_id)}

    def _is_here(self, region: str | None) -> bool:
        return region is None or self._region in (None, region)

    async def _read(self, path: str, query: Query) -> bytes:
        answer = await self._service.ask("GET", path, query=query)
        if answer.status != 200:
            raise Unavailable(error_of("identity", answer.status, answer.text).reason)
        return answer.content


class UnifiedQuotas:
    """Implements ports.stores.catalog.Quotas: every user of a project has the project's limits, and none are set here.

    A resource without a registered limit is unlimited, or cannot be used, as the rules say.
    """

    are_settable = False

    def __init__(self, limits: UnifiedLimits, rules: QuotaRules, clock: Clock) -> None:
        self._limits = limits
        self._rules = rules
        self._clock = clock
        self._known: dict[ProjectId | None, tuple[float, dict[str, int]]] = {}  # project, None: registered

    async def limits(self, project_id: ProjectId, user_id: UserId | None = None) -> dict[str, int]:
        registered, own = await self._registered(), await self._own(project_id)
        return {**DEFAULT_LIMITS} | {
            name: self._enforced(resource, registered | own if name in OF_PROJECTS else registered)
            for name, resource in (OF_PROJECTS | REGISTERED).items()
        }

    async def shown(self, project_id: ProjectId, user_id: UserId | None = None) -> dict[str, int]:
        return _shown(await self._registered(), await self._own(project_id))

    async def resource_limits(self, project_id: ProjectId, classes: Collection[str]) -> dict[str, int]:
        limits = await self._registered() | await self._own(project_id)
        found = {name: self._enforced(f"class:{name}", limits) for name in classes if name not in COUNTED_HERE}
        return {name: limit for name, limit in found.items() if limit >= 0}

    async def set_limits(self, project_id: ProjectId, limits: Mapping[str, int], user_id: UserId | None = None) -> None:
        """Change nothing, as Nova does."""

    async def reset(self, project_id: ProjectId, user_id: UserId | None = None) -> None:
        """Change nothing, as Nova does."""

    async def class_limits(self, name: str) -> dict[str, int]:
        return _shown(await self._registered(), {})

    async def set_class_limits(self, name: str, limits: Mapping[str, int]) -> None:
        """Change nothing, as Nova does."""

    def _enforced(self, resource: str, limits: Mapping[str, int]) -> int:
        missing = 0 if self._rules.is_required(resource) else -1
        return max(limits.get(resource, missing), -1)

    async def _registered(self) -> dict[str, int]:
        return await self._read(None, self._limits.registered)

    async def _own(self, project_id: ProjectId) -> dict[str, int]:
        return await self._read(project_id, lambda: self._limits.of_project(project_id))

    async def _read(self, key: ProjectId | None, read: Callable[[], Awaitable[dict[str, int]]]) -> dict[str, int]:
        now = self._clock.now()
        until, known = self._known.get(key, (0.0, {}))
        if now >= until:
            known = await read()
            if len(self._known) >= MOST_PROJECTS:
                self._known.clear()
            self._known[key] = now + TRUSTED_S, known
        return known


def _shown(registered: Mapping[str, int], own: Mapping[str, int]) -> dict[str, int]:
    """Return the limits as Nova shows them: 0 without a registered limit, whether or not it is enforced."""
    of_projects = {name: own.get(key, registered.get(key, 0)) for name, key in OF_PROJECTS.items()}
    return {**DEFAULT_LIMITS} | of_projects | {name: registered.get(key, 0) for name, key in REGISTERED.items()}
