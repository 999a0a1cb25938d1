"""PCI devices: the target's are claimed before anything moves there, the source's kept until the verdict."""

from whimbrel.domain.pci import PciDevice
from whimbrel.moves import needs
from whimbrel.moves.facts import Location, Move, key_at, source_of, target_of
from whimbrel.ports.cloud import Cloud


async def claim_devices(move: Move, cloud: Cloud) -> None:
    """Have the guest on the target hold its devices. Refused: they are not there, and an alternate's turn has come."""
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
    """Give the devices that the guest of a place holds, by request."""
    found: dict[str, list[PciDevice]] = {}
    for one in await cloud.cell(location.cell).devices.of(location.host):
        if one.holder == key_at(move, location) and one.request is not None:
            found.setdefault(one.request, []).append(one.device)
    return found


def in_profile(device: PciDevice) -> dict[str, str | None]:
    """Give what a port's binding says of the device that serves it."""
    return {
        "pci_slot": device.address,
        "pci_vendor_info": f"{device.vendor_id}:{device.product_id}",
        "physical_network": device.physnet,
    }
