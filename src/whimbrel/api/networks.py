"""Networks as old clients look them up, before there is a network service: there are two, and both mean no network.

`openstack server create --network none` looks for a network of that name here, and then names it by its id.
"""

from typing import Any

from whimbrel.api.call import Call
from whimbrel.domain.errors import NotFound

PRETENDED = ("none", "auto")


def _shown(name: str) -> dict[str, Any]:
    return {"id": name, "label": name, "cidr": None}


async def index(call: Call) -> Any:
    return {"networks": [_shown(name) for name in PRETENDED]}


async def show(call: Call) -> Any:
    name = call.params["network_id"]
    if name not in PRETENDED:
        raise NotFound("Network not found")
    return {"network": _shown(name)}
