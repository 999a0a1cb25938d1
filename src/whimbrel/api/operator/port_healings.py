"""What servers hold for their ports where it is not what the ports ask for, and healing it. For operators.

This is Whimbrel's own part of the API: /v2.1/whimbrel/port-healings.
"""

from collections.abc import Mapping
from typing import Any

from whimbrel.api.http.call import Call
from whimbrel.domain.ids import ProviderId, ServerId
from whimbrel.servers import lookup
from whimbrel.servers.allocations.healing import heal, survey
from whimbrel.servers.allocations.port_allocations import Claim
from whimbrel.servers.allocations.port_findings import Finding


async def index(call: Call) -> Any:
    """List the servers whose ports are not served as they ask, with what healing would change."""
    only = call.value("server_id")
    if only is not None:
        await lookup.find(call.cloud, ServerId(only))
    found = await survey(call.cloud, None if only is None else ServerId(only))
    return {"port_healings": [_shown(one) for one in found]}


async def create(call: Call) -> Any:
    """Begin to heal the ports of a server; the move of this id tells how far it is."""
    server = await lookup.find(call.cloud, ServerId(call.body["healing"]["server_id"]))
    run, found = await heal(call.cloud, call.engine, call.requester, server)
    return {"healing": {"move_id": run.id, **_shown(found)}}


def _shown(one: Finding) -> dict[str, Any]:
    return {
        "server_id": one.server_id,
        "server_name": one.name,
        "host": one.host,
        "problems": [{"port_id": problem.port_id, "problem": problem.sentence} for problem in one.problems],
        "obstacle": one.obstacle,
        "held": _claim(one.held, one.names),
        "due": _claim(one.due, one.names),
        "profiles": [
            {"port_id": change.port_id, "allocation": change.before, "due": change.after} for change in one.profiles
        ],
    }


def _claim(claim: Claim, names: Mapping[ProviderId, str]) -> list[dict[str, Any]]:
    return [
        {"provider": provider, "provider_name": names.get(provider), "resources": resources}
        for provider, resources in sorted(claim.items())
    ]
