"""The network agents of hosts: one for each type of NIC that a host has.

They are part of this service, so they are alive as long as it answers. Other users than administrators see none.
"""

from typing import Any
from uuid import NAMESPACE_URL, uuid5

from whimbrel.domain.errors import NotFound
from whimbrel.domain.host_nics import AGENTS, HostNet
from whimbrel.embedded.network.request import Ask, pruned
from whimbrel.embedded.network.views import moment
from whimbrel.http.reply import Reply

BINARIES = {"normal": "neutron-openvswitch-agent", "direct": "neutron-sriov-nic-agent"}
FILTERS = ("id", "agent_type", "binary", "host", "topic", "availability_zone")


class AgentNotFound(NotFound):
    """There is no such agent."""


async def search(ask: Ask) -> Reply:
    params = ask.request.query_params
    fields = params.getlist("fields")
    found = [
        agent
        for agent in await _all(ask)
        if all(agent[name] in params.getlist(name) for name in FILTERS if name in params)
        and all(params[name].lower() == "true" for name in ("alive", "admin_state_up") if name in params)
    ]
    return Reply({"agents": [pruned(agent, fields) for agent in found]})


async def show(ask: Ask) -> Reply:
    for agent in await _all(ask):
        if agent["id"] == ask.path("id"):
            return Reply({"agent": pruned(agent, ask.request.query_params.getlist("fields"))})
    raise AgentNotFound(f"Agent {ask.path('id')} could not be found.")


async def _all(ask: Ask) -> list[dict[str, Any]]:
    if not ask.is_admin:
        return []
    now = moment(ask.context.clock.now()).replace("T", " ").removesuffix("Z")
    return [
        _view(host, kind, agent_type, now)
        for host in (await ask.context.nics.all()).values()
        for kind, agent_type in AGENTS.items()
        if kind == "normal" or any(kind in card.vnic_types for card in host.cards)
    ]


def _view(host: HostNet, kind: str, agent_type: str, now: str) -> dict[str, Any]:
    cards = {card.physnet: card.name for card in host.cards if kind in card.vnic_types}
    mappings = "bridge_mappings" if kind == "normal" else "device_mappings"
    return {
        "id": str(uuid5(NAMESPACE_URL, f"whimbrel:agent:{host.host}:{agent_type}")),
        "agent_type": agent_type,
        "binary": BINARIES[kind],
        "topic": "N/A",
        "host": host.host,
        "availability_zone": None,
        "admin_state_up": True,
        "alive": True,
        "created_at": now,
        "started_at": now,
        "heartbeat_timestamp": now,
        "description": None,
        "resources_synced": True,
        "configurations": {mappings: cards},
    }
