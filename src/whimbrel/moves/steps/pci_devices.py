"""PCI devices: claimed on the target before the move, kept on the source until the verdict."""

from collections.abc import Iterable

from whimbrel.domain.guest import GuestKey
from whimbrel.domain.pci import HeldDevice, PciDevice
from whimbrel.moves import needs
from whimbrel.moves.facts import Location, Move, key_at, source_of, target_of
from whimbrel.ports.cloud import Cloud


async def claim_devices(move: Move, cloud: Cloud) -> None:
    """Claim the target guest's devices. Raises: Refused: they are not available; the next alternate is tried."""
    target = target_of(move)
    wanted = needs.requested_devices(move.facts, target.served_by, cloud)
    await cloud.cell(target.cell).devices.claim(move.order, target.host, key_at(move, target), wanted)


async def release_devices(move: Move, cloud: Cloud) -> None:
    await _release(move, target_of(move), cloud)


async def release_old_devices(move: Move, cloud: Cloud) -> None:
    await _release(move, source_of(move), cloud)


async def _release(move: Move, location: Location, cloud: Cloud) -> None:
    await cloud.cell(location.cell).devices.release(move.order, location.host, key_at(move, location))


# Reading


async def held(move: Move, location: Location, cloud: Cloud) -> dict[str, list[PciDevice]]:
    """Return the devices that the guest at a location holds, by request."""
    found: dict[str, list[PciDevice]] = {}
    for one in await cloud.cell(location.cell).devices.of(location.host):
        if one.holder == key_at(move, location) and one.request is not None:
            found.setdefault(one.request, []).append(one.device)
    return found


async def live_migratable(key: GuestKey, location: Location, cloud: Cloud) -> tuple[str, ...]:
    """Return the addresses of a guest's devices, except those of its nics, that can be moved while it runs."""
    return migratable_of(key, await cloud.cell(location.cell).devices.of(location.host))


def migratable_of(key: GuestKey, devices: Iterable[HeldDevice]) -> tuple[str, ...]:
    """Return what `live_migratable` does, of the devices of its host."""
    held = [one.device for one in devices if one.holder == key]
    return tuple(device.address for device in held if device.is_live_migratable and device.physnet is None)


async def pairs(move: Move, cloud: Cloud) -> dict[str, str]:
    """Return address at the source -> at the target of each device of the flavor: two of one request."""
    here, there = await held(move, source_of(move), cloud), await held(move, target_of(move), cloud)
    of_ports = {port.nic.port_id for port in move.facts.ports}
    return {
        one.address: other.address
        for request in sorted(here.keys() & there.keys() - of_ports)
        for one, other in zip(here[request], there[request], strict=False)
    }


def in_profile(device: PciDevice) -> dict[str, str | None]:
    """Return the keys of a port's binding profile for its device."""
    return {
        "pci_slot": device.address,
        "pci_vendor_info": f"{device.vendor_id}:{device.product_id}",
        "physical_network": device.physnet,
    }
