"""Real guests survive who looks after them: the process with the adapter, libvirtd, and both."""

import asyncio
import os
import signal
import subprocess
import sys
import time
import uuid

import pytest

from tests.contracts.hypervisors import LibvirtPair, libvirt_hosts, libvirt_pair, new_spec, quiet  # noqa: F401
from tests.live import libvirt_victim
from tests.live.libvirt_victim import MARKER, spec_of
from tests.processes import HANG_S
from whimbrel.adapters.libvirt import LibvirtHypervisor
from whimbrel.adapters.qemu import own_processes
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.guest import GuestKey, GuestSpec
from whimbrel.embedded.tick_guest import Tick, ticks

pytestmark = pytest.mark.long

NO_TIME_S = 0.0
A_WHILE_S = 0.5
POLL_S = 0.02


@pytest.fixture
def pair(libvirt_pair: LibvirtPair) -> LibvirtPair:  # noqa: F811
    return libvirt_pair


def killed_while(pair: LibvirtPair, act: str) -> GuestSpec:
    """Let another process make a guest on host a, and kill it with -9 while or after it does `act`."""
    server, slot = str(uuid.uuid4()), str(uuid.uuid4())
    uri, directory = pair.hosts.daemons["a"].uri, str(pair.directory("a"))
    command = [sys.executable, libvirt_victim.__file__, uri, directory, server, slot, act]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout
        try:
            assert victim.stdout.readline().strip() == "ready"
        finally:
            victim.kill()
    return spec_of(server, slot)


async def tick_after(host: LibvirtHypervisor, key: GuestKey, before: Tick | None) -> Tick:
    """Wait until the guest says something new, None: anything."""
    deadline = time.monotonic() + HANG_S
    while not (seen := ticks(await host.console_log(key, None))) or seen[-1] == before:
        assert time.monotonic() < deadline, f"the guest is silent after {before}"
        await asyncio.sleep(POLL_S)
    return seen[-1]


async def last_tick(host: LibvirtHypervisor, key: GuestKey) -> Tick:
    return await tick_after(host, key, None)


async def test_a_guest_ticks_on_when_its_agent_was_killed(pair: LibvirtPair) -> None:
    spec = killed_while(pair, "run")
    (guest,) = await pair.a.guests()
    assert (guest.key, guest.power) == (spec.key, "running")
    before = await last_tick(pair.host("a"), spec.key)
    await pair.a.start(spec.key)
    after = await tick_after(pair.host("a"), spec.key, before)
    assert (after.nonce, after.boots, after.marker) == (before.nonce, 1, MARKER), "it was never started anew"
    await pair.a.stop(spec.key, NO_TIME_S)


async def test_a_disk_that_was_being_made_is_made_again(pair: LibvirtPair) -> None:
    spec = killed_while(pair, "create")
    (guest,) = await pair.a.guests()
    assert (guest.power, guest.has_disk) == ("reserved", False)
    await pair.add_image(libvirt_victim.IMAGE, libvirt_victim.FILE, "raw")
    await pair.a.create_disk(spec, quiet)


async def test_an_export_is_found_by_the_next_agent_and_the_disk_arrives(pair: LibvirtPair) -> None:
    old = killed_while(pair, "export")
    exports = await own_processes.at_work("qemu-nbd", pair.directory("a"))
    assert len(exports) == 1, "it is offered though nobody is there who offered it"
    new = new_spec(old.key.server, root_gib=2)
    await pair.b.reserve(new)
    await pair.b.import_disk(new, await pair.a.export_disk(old.key), quiet)
    assert await own_processes.at_work("qemu-nbd", pair.directory("a")) == exports
    await pair.a.unexport_disk(old.key)
    assert await own_processes.at_work("qemu-nbd", pair.directory("a")) == []
    await pair.b.define(new)
    await pair.b.start(new.key)
    assert (await last_tick(pair.host("b"), new.key)).marker == MARKER


async def test_a_snapshot_that_was_being_taken_leaves_the_guest_running(pair: LibvirtPair) -> None:
    spec = killed_while(pair, "snapshot")
    before = await last_tick(pair.host("a"), spec.key)
    assert [chunk async for chunk in pair.a.read_snapshot(spec.key, quiet)]
    after = await tick_after(pair.host("a"), spec.key, before)
    assert (after.nonce, after.boots) == (before.nonce, 1)
    parts = pair.directory("a").glob("guests/*/*/*.part")
    assert list(parts) == []


async def test_a_guest_ticks_on_when_libvirtd_was_killed(pair: LibvirtPair) -> None:
    host, spec = pair.host("a"), new_spec()
    await pair.made(host, spec)
    await host.start(spec.key)
    before = await last_tick(host, spec.key)
    await pair.hosts.daemons["a"].kill()
    with pytest.raises(Unavailable):
        await host.look(spec.key)
    with pytest.raises(Unavailable):
        await host.stop(spec.key, NO_TIME_S)
    assert (await tick_after(host, spec.key, before)).nonce == before.nonce
    await asyncio.to_thread(lambda: pair.hosts.start("a"))
    await host.start(spec.key)  # at once: it must wait until libvirtd has hold of the guest
    after = await tick_after(host, spec.key, await last_tick(host, spec.key))
    assert (after.nonce, after.boots) == (before.nonce, 1)
    await host.stop(spec.key, NO_TIME_S)
    guest = await host.look(spec.key)
    assert guest
    assert guest.power == "stopped"


async def test_no_call_is_made_before_libvirtd_has_hold_of_its_guests(pair: LibvirtPair) -> None:
    host, spec = pair.host("a"), new_spec()
    await pair.made(host, spec)
    await host.start(spec.key)
    await pair.seen(host, spec.key, boots=1)
    await pair.hosts.daemons["a"].kill()
    (guest,) = await own_processes.at_work("qemu-system", pair.directory("a"))
    os.kill(guest.pid, signal.SIGSTOP)  # its monitor does not answer, so it cannot be attached to
    try:
        await asyncio.to_thread(lambda: pair.hosts.start("a"))
        look = asyncio.create_task(host.look(spec.key))
        answered, _ = await asyncio.wait({look}, timeout=A_WHILE_S)
        assert not answered
    finally:
        os.kill(guest.pid, signal.SIGCONT)
    assert await look == (await host.guests())[0]


async def test_a_stop_right_after_libvirtd_came_back_stops_the_guest(pair: LibvirtPair) -> None:
    host, spec = pair.host("a"), new_spec()
    await pair.made(host, spec)
    await host.start(spec.key)
    await last_tick(host, spec.key)
    await pair.hosts.daemons["a"].kill()
    await asyncio.to_thread(lambda: pair.hosts.start("a"))
    await host.reboot(spec.key, hard=True)
    assert await pair.seen(host, spec.key, boots=2)


async def test_after_a_power_cut_guests_are_stopped_and_start_again(pair: LibvirtPair) -> None:
    host, spec = pair.host("a"), new_spec()
    await pair.made(host, spec)
    await host.start(spec.key)
    mark = await pair.seen(host, spec.key, boots=1)
    await pair.hosts.daemons["a"].power_off()
    await asyncio.to_thread(lambda: pair.hosts.start("a"))
    guest = await host.look(spec.key)
    assert guest
    assert guest.power == "stopped"
    await host.start(spec.key)
    assert await pair.seen(host, spec.key, boots=2) == mark
