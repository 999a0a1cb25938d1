"""The contract of config drives for every hypervisor: the guest has exactly these files, also after a live transfer."""

import asyncio

from msgspec.structs import replace

from tests.contracts.hypervisors import ALSO_REAL, HypervisorPair, new_nic, new_spec
from tests.contracts.test_live_transfer import OPTIONS, ended, power, slot_at_target
from whimbrel.domain.config_drive import ConfigDrive

FILES = {
    "openstack/latest/meta_data.json": b'{"uuid": "1"}',
    "openstack/2013-10-17/meta_data.json": b'{"uuid": "1"}',
    "openstack/latest/user_data": bytes(range(256)) * 300,
    "ec2/2009-04-04/user-data": b"",
}
OTHERS = {"openstack/latest/meta_data.json": b'{"uuid": "2"}'}


@ALSO_REAL
async def test_a_stopped_guest_gets_the_drive_that_it_is_defined_with(pair: HypervisorPair) -> None:
    spec = replace(new_spec(), config_drive=ConfigDrive.of(FILES))
    await pair.made(pair.a, spec)
    await pair.a.define(spec)
    assert await pair.drive(pair.a, spec.key) == FILES
    await pair.a.define(replace(spec, config_drive=ConfigDrive.of(OTHERS)))
    assert await pair.drive(pair.a, spec.key) == OTHERS
    await pair.a.plug(spec.key, new_nic())
    assert await pair.drive(pair.a, spec.key) == OTHERS
    await pair.a.define(replace(spec, config_drive=None))
    assert await pair.drive(pair.a, spec.key) is None


async def test_a_running_guest_keeps_its_drive(pair: HypervisorPair) -> None:
    spec = replace(new_spec(), config_drive=ConfigDrive.of(FILES))
    await pair.made(pair.a, spec)
    await pair.a.start(spec.key)
    await pair.seen(pair.a, spec.key, boots=1)
    await pair.a.define(replace(spec, config_drive=ConfigDrive.of(OTHERS)))
    assert await pair.drive(pair.a, spec.key) == FILES


async def test_a_drive_is_the_same_after_a_live_transfer(pair: HypervisorPair) -> None:
    """The channel to the guest's agent comes with it."""
    here = replace(new_spec(), config_drive=ConfigDrive.of(FILES), guest_agent=True)
    await pair.made(pair.a, here)
    await pair.a.start(here.key)
    await pair.seen(pair.a, here.key, boots=1)
    live = await pair.a.examine(here.key)
    assert live.config_drive == here.config_drive
    there = replace(slot_at_target(here), config_drive=live.config_drive)
    await pair.b.reserve(there)
    target = await pair.b.receive(there, live)
    await pair.a.start_transfer(here.key, target, OPTIONS)
    progress = await ended(pair.a, here.key, target)
    assert progress.state == "arrived", progress.trouble
    await pair.b.settle_arrival(there.key)
    assert await power(pair.b, there) == "running"
    assert await pair.drive(pair.b, there.key) == FILES
    await asyncio.gather(pair.b.stop(there.key, 5.0), pair.a.destroy(here.key))
    await pair.b.start(there.key)
    assert await pair.drive(pair.b, there.key) == FILES
