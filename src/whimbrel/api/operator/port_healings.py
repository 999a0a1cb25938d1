"""Differences between the claims of servers and the requests of their ports, and their repair. For operators.

This is Whimbrel's own part of the API: /v2.1/whimbrel/port-healings.
"""

from collections.abc import Mapping

import msgspec
from msgspec.structs import asdict

from whimbrel.api.http.call import Call
from whimbrel.api.views.port_healings import (
    Healing,
    HealingAnswer,
    PortFinding,
    PortHealings,
    Problem,
    ProfileChange,
    ProviderClaim,
)
from whimbrel.domain.ids import ProviderId, ServerId
from whimbrel.servers import lookup
from whimbrel.servers.allocations.healing import heal, survey
from whimbrel.servers.allocations.port_allocations import Claim
from whimbrel.servers.allocations.port_findings import Finding


async def index(call: Call) -> PortHealings:
    """List the servers whose claims differ from their ports' requests, with the changes that healing would make."""
    only = call.value("server_id")
    if only is not None:
        await lookup.find(call.cloud, ServerId(only))
    found = await survey(call.cloud, None if only is None else ServerId(only))
    return PortHealings([_shown(one) for one in found])


async def create(call: Call) -> HealingAnswer:
    """Begin to heal the ports of a server; its progress is that of the move of this id."""
    server = await lookup.find(call.cloud, ServerId(call.body["healing"]["server_id"]))
    run, found = await heal(call.cloud, call.engine, call.requester, server)
    return HealingAnswer(Healing(**asdict(_shown(found)), move_id=run.id))


def _shown(one: Finding) -> PortFinding:
    return PortFinding(
        server_id=one.server_id,
        server_name=one.name,
        host=one.host,
        problems=msgspec.convert(one.problems, list[Problem], from_attributes=True),
        obstacle=one.obstacle,
        held=_claims(one.held, one.names),
        due=_claims(one.due, one.names),
        profiles=msgspec.convert(one.profiles, list[ProfileChange], from_attributes=True),
    )


def _claims(claim: Claim, names: Mapping[ProviderId, str]) -> list[ProviderClaim]:
    return [
        ProviderClaim(provider=provider, provider_name=names.get(provider), resources=dict(resources))
        for provider, resources in sorted(claim.items())
    ]
