"""Volumes that a host has to connect: from the start of a guest until it stops, and no longer than others use them."""

import pytest
from msgspec.structs import replace

from tests.contracts.hypervisors import ALSO_REAL, HypervisorPair, new_spec
from whimbrel.domain.guest import GuestKey, GuestSpec
from whimbrel.domain.server_devices import GuestVolume
from whimbrel.ports.hosts.hypervisor import Hypervisor

NO_TIME_S = 0.0


async def volumes_of(host: Hypervisor, key: GuestKey) -> tuple[str, ...]:
    guest = await host.look(key)
    assert guest
    return guest.volumes


async def started(pair: HypervisorPair, *volumes: GuestVolume) -> GuestSpec:
    spec = replace(new_spec(), volumes=volumes)
    await pair.made(pair.a, spec)
    await pair.a.start(spec.key)
    await pair.seen(pair.a, spec.key, boots=1)
    return spec


@ALSO_REAL
async def test_a_volume_is_connected_while_its_guest_is_live(pair: HypervisorPair) -> None:
    volume = pair.new_share_volume()
    spec = replace(new_spec(), volumes=(volume,))
    await pair.made(pair.a, spec)
    assert not await pair.mounted(pair.a)
    for boots in (1, 2):
        for _ in "ab":
            await pair.a.start(spec.key)
            assert await pair.mounted(pair.a)
        await pair.seen(pair.a, spec.key, boots=boots)
        pair.restart()
        await pair.a.release_volumes()
        assert await pair.mounted(pair.a), "a live guest uses it"
        await pair.a.stop(spec.key, NO_TIME_S)
        assert not await pair.mounted(pair.a)
    await pair.a.start(spec.key)
    await pair.a.destroy(spec.key)
    assert not await pair.mounted(pair.a)


async def test_a_volume_is_connected_to_a_running_guest_and_let_go(pair: HypervisorPair) -> None:
    spec, volume = await started(pair), pair.new_share_volume()
    for _ in "ab":
        await pair.a.attach_volume(spec.key, volume)
        assert await volumes_of(pair.a, spec.key) == (volume.volume_id,)
        assert await pair.mounted(pair.a)
    pair.restart()
    for _ in "ab":
        await pair.a.detach_volume(spec.key, volume.volume_id)
        assert await volumes_of(pair.a, spec.key) == ()
        assert not await pair.mounted(pair.a)


async def test_a_share_stays_as_long_as_a_guest_uses_one_of_its_volumes(pair: HypervisorPair) -> None:
    first, second = pair.new_share_volume(), pair.new_share_volume("/dev/vdc")
    spec, other = await started(pair, first, second), await started(pair, pair.new_share_volume())
    await pair.a.detach_volume(spec.key, first.volume_id)
    assert await pair.mounted(pair.a)
    await pair.a.destroy(other.key)
    assert await pair.mounted(pair.a)
    assert await volumes_of(pair.a, spec.key) == (second.volume_id,)
    await pair.a.stop(spec.key, NO_TIME_S)
    assert not await pair.mounted(pair.a)


async def test_a_suspended_guest_finds_its_volume_again(pair: HypervisorPair) -> None:
    spec = await started(pair, volume := pair.new_share_volume())
    memory = await pair.memory(pair.a, spec.key)
    await pair.a.suspend(spec.key)
    assert not await pair.mounted(pair.a)
    await pair.a.resume(spec.key)
    assert await pair.mounted(pair.a)
    assert await pair.memory(pair.a, spec.key) == memory
    assert await volumes_of(pair.a, spec.key) == (volume.volume_id,)


async def test_a_volume_goes_with_its_guest_to_another_host(pair: HypervisorPair) -> None:
    old = await started(pair, volume := pair.new_share_volume())
    new = replace(new_spec(old.key.server), volumes=(volume,))
    await pair.made(pair.b, new)
    await pair.a.stop(old.key, NO_TIME_S)
    assert not await pair.mounted(pair.a)
    await pair.b.start(new.key)
    await pair.a.destroy(old.key)
    assert await pair.mounted(pair.b)
    await pair.b.destroy(new.key)
    assert not await pair.mounted(pair.b)


@pytest.mark.parametrize("state", ["stopped", "running"])
async def test_two_slots_of_a_server_share_what_is_connected(pair: HypervisorPair, state: str) -> None:
    old = await started(pair, volume := pair.new_share_volume())
    new = replace(new_spec(old.key.server), volumes=(volume,))
    await pair.made(pair.a, new)
    if state == "running":
        await pair.a.destroy(new.key)
        assert await pair.mounted(pair.a)
        await pair.a.stop(old.key, NO_TIME_S)
    else:
        await pair.a.stop(old.key, NO_TIME_S)
        await pair.a.start(new.key)
        await pair.a.destroy(old.key)
        assert await pair.mounted(pair.a)
        await pair.a.stop(new.key, NO_TIME_S)
    assert not await pair.mounted(pair.a)
