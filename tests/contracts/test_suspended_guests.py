"""What every hypervisor does with a suspended guest: it is off and keeps its memory, also when a process dies."""

import asyncio
import subprocess
import time

import pytest
from msgspec.structs import replace

from tests.contracts.hypervisors import ALSO_REAL, POLL_S, HypervisorPair, LibvirtPair, new_nic, new_spec
from tests.processes import HANG_S
from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import GuestKey, GuestSpec
from whimbrel.domain.ids import Slot
from whimbrel.embedded.tick_guest import ticks
from whimbrel.ports.hosts.hypervisor import Hypervisor

STOP_S = 5.0


async def power(host: Hypervisor, spec: GuestSpec) -> str | None:
    guest = await host.look(spec.key)
    return guest.power if guest else None


async def suspended(pair: HypervisorPair) -> GuestSpec:
    spec = new_spec()
    await pair.made(pair.a, spec)
    await pair.a.start(spec.key)
    await pair.seen(pair.a, spec.key, boots=1)
    for _ in "ab":
        await pair.a.suspend(spec.key)
        assert await power(pair.a, spec) == "suspended"
    return spec


@ALSO_REAL
async def test_a_suspended_guest_goes_on_where_it_was(pair: HypervisorPair) -> None:
    spec = await suspended(pair)
    pair.restart()
    assert [(guest.key, guest.power) for guest in await pair.a.guests()] == [(spec.key, "suspended")]
    for _ in "ab":
        await pair.a.resume(spec.key)
        assert await power(pair.a, spec) == "running"
    await pair.seen(pair.a, spec.key, boots=1)  # it did not boot again


async def test_a_paused_guest_is_suspended_and_runs_again(pair: HypervisorPair) -> None:
    spec = await suspended(pair)
    await pair.a.resume(spec.key)
    await pair.a.pause(spec.key)
    await pair.a.suspend(spec.key)
    assert await power(pair.a, spec) == "suspended"
    await pair.a.resume(spec.key)
    assert await power(pair.a, spec) == "running"


async def test_a_suspended_guest_does_not_start_or_change(pair: HypervisorPair) -> None:
    spec = await suspended(pair)
    with pytest.raises(Refused):
        await pair.a.start(spec.key)
    with pytest.raises(Refused):
        await pair.a.pause(spec.key)
    with pytest.raises(Refused):
        await pair.a.plug(spec.key, new_nic())
    await pair.a.define(replace(spec, vcpus=2))
    guest = await pair.a.look(spec.key)
    assert guest
    assert (guest.power, guest.vcpus) == ("suspended", spec.vcpus)


@pytest.mark.parametrize("verb", ["suspend", "resume"])
async def test_a_stopped_guest_has_nothing_to_keep(pair: HypervisorPair, verb: str) -> None:
    spec = new_spec()
    await pair.made(pair.a, spec)
    with pytest.raises(Refused):
        await getattr(pair.a, verb)(spec.key)
    assert await power(pair.a, spec) == "stopped"


async def test_a_hard_reboot_and_a_stop_discard_the_memory(pair: HypervisorPair) -> None:
    spec = await suspended(pair)
    await pair.a.reboot(spec.key, hard=True)
    await pair.seen(pair.a, spec.key, boots=2)
    await pair.a.suspend(spec.key)
    for _ in "ab":
        await pair.a.stop(spec.key, STOP_S)
        assert await power(pair.a, spec) == "stopped"
    await pair.a.start(spec.key)
    await pair.seen(pair.a, spec.key, boots=3)


async def test_a_suspended_guest_goes_without_a_trace(pair: HypervisorPair) -> None:
    spec = await suspended(pair)
    for _ in "ab":
        await pair.a.destroy(spec.key)
        assert await pair.a.guests() == []
    await pair.made(pair.a, spec)
    await pair.a.start(spec.key)
    await pair.seen(pair.a, spec.key, boots=1)


async def test_another_slot_runs_beside_a_suspended_one_and_not_both(pair: HypervisorPair) -> None:
    spec = await suspended(pair)
    other = replace(new_spec(), key=GuestKey(spec.key.server, Slot(new_spec().key.slot)))
    await pair.made(pair.a, other)
    await pair.a.start(other.key)
    with pytest.raises(Refused):
        await pair.a.resume(spec.key)
    assert [await power(pair.a, one) for one in (spec, other)] == ["suspended", "running"]


@pytest.mark.long
async def test_an_agent_that_dies_while_it_resumes_loses_no_memory(libvirt_pair: LibvirtPair) -> None:
    pair = libvirt_pair
    spec = await suspended(pair)
    saved = pair.slot_directory("a", spec.key) / "memory.save"
    subprocess.run(["virsh", "-q", "-c", pair.hosts.daemons["a"].uri, "restore", str(saved), "--paused"], check=True)
    assert await power(pair.a, spec) == "suspended"
    await pair.a.resume(spec.key)
    assert await power(pair.a, spec) == "running"
    assert not saved.exists()
    await goes_on(pair, spec)
    await pair.seen(pair.a, spec.key, boots=1)


async def goes_on(pair: LibvirtPair, spec: GuestSpec) -> None:
    """Wait until the guest counts on."""
    begun = ticks(await pair.a.console_log(spec.key, None))[-1].ticks
    deadline = time.monotonic() + HANG_S
    while ticks(await pair.a.console_log(spec.key, None))[-1].ticks <= begun:
        assert time.monotonic() < deadline, "the guest stands still"
        await asyncio.sleep(POLL_S)


@pytest.mark.long
async def test_memory_that_was_not_written_completely_is_not_restored(libvirt_pair: LibvirtPair) -> None:
    pair, spec = libvirt_pair, new_spec()
    await pair.made(pair.a, spec)
    saved = pair.slot_directory("a", spec.key) / "memory.save"
    saved.write_bytes(b"LibvirtQemudPart")
    assert await power(pair.a, spec) == "stopped"
    await pair.a.start(spec.key)
    await pair.seen(pair.a, spec.key, boots=1)
    await pair.a.suspend(spec.key)
    assert await power(pair.a, spec) == "suspended"
