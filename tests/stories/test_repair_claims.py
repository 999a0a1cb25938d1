"""A repair plans no claim that Placement would refuse: the plan says so, and the rest is repaired."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.booting import boot_server
from tests.broken_ports import held, hold, provider
from tests.stories import breaking
from tests.stories.breaking import Scene
from tests.stories.test_harmless_repair import changed, left
from tests.stories.test_repair import repair_all
from tests.stories.test_resource_requests import offer
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import RequestedNic
from whimbrel.proof.proof import prove
from whimbrel.repair.service import survey
from whimbrel.sim.checks.invariants import books
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.world import equipment

Act = Callable[[Scene], Awaitable[None]]
A_GPU = {"resources1:CUSTOM_GPU": "1"}


async def asks_for(scene: Scene, server: Server, specs: dict[str, str]) -> None:
    """Make its record say that its flavor asks for this too."""
    flavor = replace(server.flavor, extra_specs={**server.flavor.extra_specs, **specs})
    await changed(scene, server.id, flavor=msgspec.to_builtins(flavor))


async def groups_and_ports(scene: Scene) -> None:
    await offer(scene.world, "h1", [], CUSTOM_GPU=1)
    await asks_for(scene, scene.rich, A_GPU)


async def groups_that_its_host_has_not(scene: Scene) -> None:
    await asks_for(scene, scene.plain, A_GPU)


async def groups_that_are_taken(scene: Scene) -> None:
    await offer(scene.world, "h2", [], CUSTOM_GPU=1)
    await hold(scene.world, scene.gone.id, {await provider(scene.world, "h2"): {"CUSTOM_GPU": 1}})
    await asks_for(scene, scene.plain, A_GPU)


REFUSED = {
    groups_and_ports: "its flavor and its ports request parts of a host together: move the server",
    groups_that_its_host_has_not: "host h2 cannot serve what is due: it has no CUSTOM_GPU; enough would be",
}


@pytest.mark.parametrize("act", REFUSED, ids=lambda act: act.__name__)
async def test_no_claim_is_promised_that_would_be_refused(scene: Scene, act: Act) -> None:
    await act(scene)
    before = await books(scene.world)
    [words] = await left(scene)
    assert f": {REFUSED[act]}" in words
    assert await books(scene.world) == before


async def test_the_rest_is_repaired(scene: Scene) -> None:
    await groups_that_its_host_has_not(scene)
    await breaking.guest("plain", "h3", runs=False)(scene)
    _, findings = await survey(scene.world.cloud)
    [one] = findings
    assert [action.kind for action in one.plan.actions] == ["destroy_guest"]
    assert [REFUSED[groups_that_its_host_has_not] in words for words in one.plan.left] == [True]
    await repair_all(scene, findings)
    assert [one.kind for one in (await prove(scene.world.cloud)).violations] == ["wrong_claim"]


async def test_what_can_be_claimed_is(scene: Scene) -> None:
    """Once there is room, by what else is repaired."""
    world = scene.world
    await groups_that_are_taken(scene)
    _, findings = await survey(world.cloud)
    assert [{action.kind for action in one.plan.actions} for one in findings] == [{"release_claim"}, set()]
    await repair_all(scene, findings[:1])
    _, findings = await survey(world.cloud)
    await repair_all(scene, findings)
    assert (await prove(world.cloud)).holds
    [claim] = (await held(world, scene.plain.id)).values()
    assert claim["CUSTOM_GPU"] == 1


# Guests that were moved by hand


async def with_a_port_that_asks(**more: Any) -> Scene:
    """Create a server on h2 with one port, which asks for bandwidth."""
    world = await World.build(cells={"c1": ("h1", "h2", "h3")}, equipped=True)
    nics = (RequestedNic(port_id=equipment.PORT, network_id=equipment.NETWORK),)
    server, engine = replace(world.new_server("plain"), requested_nics=nics), world.engine("setup")
    there = await boot_server(world, engine, server, "h2")
    assert (there.vm_state, there.host) == ("active", "h2")
    return Scene(world, there, there, there)


async def test_a_guest_with_a_port_that_asks_for_something_is_not_adopted() -> None:
    """Who serves the port has to be another too: that is what moves do."""
    scene = await with_a_port_that_asks()
    await breaking.moved_by_hand(scene)
    before = await books(scene.world)
    words = await left(scene)
    wanted = f"h3, and port {equipment.PORT} is served by another host: restore it, or its disk, on h2"
    assert any(wanted in one for one in words), words
    assert await books(scene.world) == before
    await scene.world.close()
