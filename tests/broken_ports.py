"""Inconsistencies of allocations and profiles of ports, made by hand."""

from typing import Any

from whimbrel.domain.ids import ConsumerId, ProviderId, ServerId
from whimbrel.placement.provider import Claim
from whimbrel.ports.placement.placement import Owner
from whimbrel.sim.cloud.cloud import PROJECT, USER, World
from whimbrel.sim.world import equipment

Held = dict[ProviderId, dict[str, int]]


async def held(world: World, server: ServerId) -> Held:
    return {one.provider: dict(one.resources) for one in await world.placement.allocations([ConsumerId(server)])}


async def hold(world: World, server: ServerId, what: Held) -> None:
    """Set the allocations of a server to this, as an operator does with the Placement API."""
    owner = Owner(PROJECT, USER)
    await world.placement.rewrite([Claim(consumer=ConsumerId(server), owner=owner, held=what, type="INSTANCE")])


async def say(world: World, port_id: str, allocation: Any) -> None:
    """Set the allocation in the profile of a port's binding."""
    network = world.remains.network
    port = await network.port(port_id)
    host = next(binding.host for binding in await network.bindings(port_id) if binding.is_active)
    await network.bind(port, host, {"allocation": allocation}, port.device_owner)


async def provider(world: World, name: str) -> ProviderId:
    return next(one.id for one in await world.placement.providers() if one.name == name)


async def card(world: World, host: str) -> ProviderId:
    """Return the provider of a host's network card."""
    return await provider(world, f"{host}:Open vSwitch agent:eth0")


BANDWIDTH = {equipment.EGRESS: equipment.KBPS, equipment.INGRESS: equipment.KBPS}
"""What equipment.PORT asks for."""
