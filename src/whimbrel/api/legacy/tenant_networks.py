"""Networks of a project, with the few fields that are left of nova-network's."""

from typing import Any

from whimbrel.api.http.call import Call
from whimbrel.domain.errors import NotFound
from whimbrel.ports.services.network import NetworkInfo


def _shown(network: NetworkInfo) -> dict[str, Any]:
    return {"id": network.id, "cidr": "None", "label": network.name}  # the word, as Nova shows it


async def index(call: Call) -> Any:
    return {"networks": [_shown(each) for each in await call.networks(call.principal.project_id)]}


async def show(call: Call) -> Any:
    found = await call.networks(call.principal.project_id, [call.params["network_id"]])
    if not found:
        raise NotFound("Network not found")
    return {"network": _shown(found[0])}
