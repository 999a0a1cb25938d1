"""A server's addresses by the names of its networks, from its record."""

from typing import Any

from whimbrel.api.http.call import Call
from whimbrel.api.views import nic_addresses
from whimbrel.domain.errors import NotFound


async def index(call: Call) -> Any:
    return {
        "addresses": {label: nic_addresses.short(found) for label, found in nic_addresses.by_label(call.server).items()}
    }


async def show(call: Call) -> Any:
    label = call.params["label"]
    found = nic_addresses.by_label(call.server).get(label)
    if found is None:
        raise NotFound("Instance is not a member of specified network")
    return {label: nic_addresses.short(found)}
