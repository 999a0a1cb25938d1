"""The order of repairs: first what frees capacity, then by invariant."""

from collections.abc import Sequence

import msgspec

from tests.broken_ports import hold, provider
from tests.stories import breaking
from tests.stories.breaking import STRANGER, Scene
from whimbrel.domain.ids import ServerId
from whimbrel.ports.placement.placement import Inventory
from whimbrel.proof.proof import prove
from whimbrel.repair.service import Finding, repair, survey

BROKEN = (
    breaking.too_little_room,
    breaking.told_of_another_zone,
    breaking.stands_still,
    breaking.wrong_quota_usage,
    breaking.record_shared,
    breaking.bound_twice,
    breaking.miscounted,
    breaking.held_by("gone"),
    breaking.guest("stranger", "h3", runs=True),
    breaking.transfer_image_left,
)


def invariants(findings: Sequence[Finding]) -> list[int]:
    return [int(one.violations[0].invariant.removeprefix("I")) for one in findings]


async def test_the_list_is_of_one_order(scene: Scene) -> None:
    for act in BROKEN:
        await act(scene)
    _, findings = await survey(scene.world.cloud)
    kinds = [{action.kind for action in one.plan.actions} for one in findings]
    roomy = [bool(each & {"release_claim", "recount"}) for each in kinds]
    assert roomy == sorted(roomy, reverse=True)
    first = roomy.index(False)
    for part in (findings[:first], findings[first:]):
        assert len(part) > 1
        assert invariants(part) == sorted(invariants(part))
    for one in findings:
        assert list(one.violations) == sorted(one.violations, key=lambda each: each.order)
    [again] = {msgspec.json.encode((await survey(scene.world.cloud))[1]) for _ in range(3)}
    assert again == msgspec.json.encode(findings)


async def test_what_makes_room_is_done_before_what_needs_it(scene: Scene) -> None:
    """Whoever does it in the order of the list has no need to do it twice."""
    world, host = scene.world, await provider(scene.world, "h2")
    [plain] = await world.placement.allocations([scene.plain.id])  # type: ignore[list-item]
    cpus = plain.resources["VCPU"]
    await hold(world, scene.plain.id, {})
    await world.placement.set_inventories(host, None, {
        "VCPU": Inventory(total=cpus), "MEMORY_MB": Inventory(total=40960), "DISK_GB": Inventory(total=40960),
    })  # fmt: skip
    await hold(world, STRANGER, {host: {"VCPU": cpus}})
    _, findings = await survey(world.cloud)
    assert [one.subject for one in findings] == [STRANGER, scene.plain.id]
    engine = world.engine("repair")
    for one in findings:
        await repair(world.cloud, engine, world.requester(), ServerId(one.subject))
        await world.settle(engine)
    assert (await prove(world.cloud)).holds
