"""The contract of consoles for every hypervisor: streams to a guest that end with it."""

import asyncio

import pytest

from tests.contracts.hypervisors import ALSO_REAL, HypervisorPair, SimulatedPair, new_spec
from tests.processes import HANG_S
from whimbrel.domain.console import ConsoleKind
from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import GuestSpec
from whimbrel.ports.hosts.consoles import ConsoleStream

STOP_S = 5.0
VERSION = b"RFB 003.008\n"
NO_PASSWORD = b"\x01\x01"


async def running(pair: HypervisorPair) -> GuestSpec:
    spec = new_spec()
    await pair.made(pair.a, spec)
    await pair.a.start(spec.key)
    await pair.seen(pair.a, spec.key, boots=1)
    return spec


async def hear(stream: ConsoleStream, wanted: bytes) -> None:
    found = b""
    async with asyncio.timeout(HANG_S):
        while wanted not in found:
            data = await stream.read()
            assert data, f"the console ended before {wanted!r}: {found!r}"
            found += data


async def hear_the_end(stream: ConsoleStream) -> None:
    async with asyncio.timeout(HANG_S):
        while await stream.read():
            pass


@ALSO_REAL
async def test_consoles_reach_a_running_guest_and_end_with_it(pair: HypervisorPair) -> None:
    spec = await running(pair)
    screen = await pair.a.connect_console(spec.key, "vnc")
    older, newer = [await pair.a.connect_console(spec.key, "serial") for _ in "ab"]
    await hear(screen, VERSION)
    await screen.write(VERSION)
    await hear(screen, NO_PASSWORD)
    await hear_the_end(older)
    await hear(newer, b"simulated guest" if isinstance(pair, SimulatedPair) else b"tick")
    await newer.write(b"hello\r")
    await pair.a.pause(spec.key)
    await hear(await pair.a.connect_console(spec.key, "vnc"), VERSION)  # beside the first one
    await pair.a.stop(spec.key, STOP_S)
    await asyncio.gather(hear_the_end(screen), hear_the_end(newer))
    assert await pair.a.console_log(spec.key, None)


@pytest.mark.parametrize("kind", ["vnc", "serial"])
async def test_a_stopped_guest_has_no_console(pair: HypervisorPair, kind: ConsoleKind) -> None:
    spec = new_spec()
    await pair.made(pair.a, spec)
    with pytest.raises(Refused):
        await pair.a.connect_console(spec.key, kind)
