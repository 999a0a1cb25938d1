"""Which projects may use a private flavor."""

from typing import Any

from whimbrel.api.http.call import Call
from whimbrel.domain.errors import Conflict, NotFound
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import ProjectId


async def index(call: Call) -> Any:
    flavor = await _flavor(call)
    if flavor.is_public:
        raise NotFound("Access list not available for public flavors.")
    return await _list(call, flavor)


async def add(call: Call) -> Any:
    project = call.body["addTenantAccess"]["tenant"]
    await call.check_project(project)
    flavor = await _flavor(call)
    if flavor.is_public and call.minor >= 7:
        raise Conflict("Can not add access to a public flavor.")
    await call.cloud.flavors.grant(flavor.flavor_id, ProjectId(project))
    return await _list(call, flavor)


async def remove(call: Call) -> Any:
    flavor = await _flavor(call)
    await call.cloud.flavors.revoke(flavor.flavor_id, ProjectId(call.body["removeTenantAccess"]["tenant"]))
    return await _list(call, flavor)


async def _flavor(call: Call) -> Flavor:
    return await call.cloud.flavors.get(call.params["flavor_id"])


async def _list(call: Call, flavor: Flavor) -> dict[str, Any]:
    projects = await call.cloud.flavors.projects(flavor.flavor_id)
    return {"flavor_access": [{"flavor_id": flavor.flavor_id, "tenant_id": project} for project in projects]}
