"""A nic of a real guest in its life and in a move: its host has it as long as the guest runs there and has it.

look: returns what a host has now. expected: returns what it should have for some nics.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from tests.contracts.hypervisors import new_nic, new_spec, quiet
from tests.live.root_hosts import RootHost
from whimbrel.adapters.libvirt import LibvirtHypervisor
from whimbrel.domain.guest import GuestSpec

NO_TIME_S = 0.0

Look = Callable[[RootHost], Awaitable[Any]]
Expected = Callable[..., Any]


async def running(host: LibvirtHypervisor, spec: GuestSpec) -> None:
    await host.reserve(spec)
    await host.create_disk(spec, quiet)
    await host.define(spec)
    await host.start(spec.key)


async def comes_and_goes(place: RootHost, host: LibvirtHypervisor, look: Look, expected: Expected) -> None:
    first, second = new_nic(), new_nic()
    spec = replace(new_spec(), nics=(first,))
    await running(host, spec)
    assert await look(place) == expected(first)
    await host.plug(spec.key, second)
    assert await look(place) == expected(first, second)
    await host.unplug(spec.key, first.port_id)
    assert await look(place) == expected(second)
    await host.stop(spec.key, NO_TIME_S)
    assert await look(place) == expected()
    await host.start(spec.key)
    assert await look(place) == expected(second)
    await host.destroy(spec.key)
    assert await look(place) == expected()


async def moves_cold(
    places: dict[str, RootHost], source: LibvirtHypervisor, target: LibvirtHypervisor, look: Look, expected: Expected
) -> None:
    nic = new_nic()
    old = replace(new_spec(), nics=(nic,))
    new = replace(new_spec(old.key.server, root_gib=2), nics=(nic,))
    await running(source, old)
    await source.stop(old.key, NO_TIME_S)
    await target.reserve(new)
    await target.import_disk(new, await source.export_disk(old.key), quiet)
    await source.unexport_disk(old.key)
    await target.define(new)
    await target.start(new.key)
    assert (await look(places["a"]), await look(places["b"])) == (expected(), expected(nic))
    (guest,) = await target.guests()
    assert (guest.power, guest.ports) == ("running", (nic.port_id,))
    await target.destroy(new.key)
    await source.start(old.key)
    assert (await look(places["a"]), await look(places["b"])) == (expected(nic), expected())
    await source.destroy(old.key)
