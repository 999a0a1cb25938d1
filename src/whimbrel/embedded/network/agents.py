"""The network agents of hosts: one for each type of NIC that a host has.

They are part of this service, so they are alive as long as it answers. Other users than administrators see none.
"""

from typing import Any
from uuid import NAMESPACE_URL, uuid5

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from whimbrel.domain.errors import NotFound
from whimbrel.domain.host_nics import AGENTS, HostNet
from whimbrel.embedded.network.bodies import Body, Text, given, one
from whimbrel.embedded.network.request import Call, pruned
from whimbrel.embedded.network.views import moment
from whimbrel.http.reply import Reply
from whimbrel.ports.embedded.network_store import AgentSettings

BINARIES = {"normal": "neutron-openvswitch-agent", "direct": "neutron-sriov-nic-agent"}
FILTERS = ("id", "agent_type", "binary", "host", "topic", "availability_zone", "description")
FLAGS = ("alive", "admin_state_up")


class ChangedAgent(Body, kw_only=True):
    admin_state_up: bool | UnsetType = UNSET
    description: Text | UnsetType | None = UNSET


class AgentNotFound(NotFound):
    """There is no such agent."""


async def search(call: Call) -> Reply:
    params = call.request.query_params
    fields = params.getlist("fields")
    found = [
        agent
        for agent in await _all(call)
        if all(agent[name] in params.getlist(name) for name in FILTERS if name in params)
        and all(params[name].lower() == str(agent[name]).lower() for name in FLAGS if name in params)
    ]
    return Reply({"agents": [pruned(agent, fields) for agent in found]})


async def show(call: Call) -> Reply:
    return Reply({"agent": pruned(await _one(call), call.request.query_params.getlist("fields"))})


async def update(call: Call) -> Reply:
    """Set the description of an agent, and whether it is shown as enabled."""
    changes = given(await one(call, "agent", ChangedAgent), "admin_state_up", "description")
    agent = await _one(call)
    settings = {name: agent[name] for name in AgentSettings.__struct_fields__} | changes
    await call.store.set_agent(agent["id"], AgentSettings(**settings))
    return Reply({"agent": agent | settings})


async def _one(call: Call) -> dict[str, Any]:
    """Raises: AgentNotFound."""
    for agent in await _all(call):
        if agent["id"] == call.path("id"):
            return agent
    raise AgentNotFound(f"Agent {call.path('id')} could not be found.")


async def _all(call: Call) -> list[dict[str, Any]]:
    if not call.is_admin:
        return []
    now = moment(call.context.clock.now()).replace("T", " ").removesuffix("Z")
    known = await call.store.agent_settings()
    agents = [
        _view(host, kind, agent_type, now)
        for host in (await call.context.nics.all()).values()
        for kind, agent_type in AGENTS.items()
        if kind == "normal" or any(kind in card.vnic_types for card in host.cards)
    ]
    return [agent | asdict(known.get(agent["id"], AgentSettings())) for agent in agents]


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
        "alive": True,
        "created_at": now,
        "started_at": now,
        "heartbeat_timestamp": now,
        "resources_synced": True,
        "configurations": {mappings: cards},
    }
