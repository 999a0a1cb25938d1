"""The limits of the compute service in the embedded identity service, for this cloud's own processes."""

from whimbrel.domain.ids import ProjectId
from whimbrel.embedded.identity.service_catalog import Catalog, Service
from whimbrel.ports.services.identity import IdentityStore, ProjectLimit, RegisteredLimit

COMPUTE = Service(type="compute", name="", url="").id


class OwnLimits:
    """Implements ports.services.unified_limits.UnifiedLimits."""

    def __init__(self, store: IdentityStore) -> None:
        self._store = store

    async def registered(self) -> dict[str, int]:
        return {each.resource_name: each.default_limit for each in await self._of_compute()}

    async def of_project(self, project_id: ProjectId) -> dict[str, int]:
        own = {
            each.registered_limit_id: each.resource_limit
            for each in await self._store.records(ProjectLimit, project_id=project_id)
        }
        return {each.resource_name: own[each.id] for each in await self._of_compute() if each.id in own}

    async def _of_compute(self) -> list[RegisteredLimit]:
        """Return the registered limits of all regions, then those of this one, which come before them."""
        found = await self._store.records(RegisteredLimit, service_id=COMPUTE)
        here = Catalog(services=()).region
        return [each for region in ("", here) for each in found if each.region_id == region]
