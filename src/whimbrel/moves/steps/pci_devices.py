"""PCI devices: the target's are claimed before anything moves there, the source's kept until the verdict.

What is asked for is the flavor's aliases, and for each port of vnic type direct a virtual function of the very physical
function whose bandwidth was claimed.
"""

from collections.abc import Mapping

from whimbrel.domain.flavor import Flavor
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import CellName, HostName, ServerId, Slot
from whimbrel.domain.pci import PciDevice, PciRequest, TooFewDevices, choose, flavor_requests
from whimbrel.moves.facts import Move, MovedPort, MoveFacts, Place, key_at, source_of, target_of
from whimbrel.ports.cloud import Cloud

ALIAS = "pci_passthrough:alias"
DIRECT = "direct"


def wants_pci(facts: MoveFacts) -> bool:
    """Tell whether the guest on the target needs devices of its host."""
    return _needs(facts, facts.new_flavor)


def had_pci(facts: MoveFacts) -> bool:
    """Tell whether the guest on the source holds devices of its host."""
    return facts.old_flavor is not None and _needs(facts, facts.old_flavor)


def _needs(facts: MoveFacts, flavor: Flavor) -> bool:
    return ALIAS in flavor.extra_specs or any(port.nic.vnic_type == DIRECT for port in facts.ports)


def requests(facts: MoveFacts, served_by: Mapping[str, str], cloud: Cloud) -> tuple[PciRequest, ...]:
    """List what is asked of a host. served_by: request of a port -> name of the provider that serves it there.

    Raises: Invalid: the flavor names an alias that the operator has not defined.
    """
    of_ports = (_of_port(port, served_by) for port in facts.ports if port.nic.vnic_type == DIRECT)
    return (*of_flavor(facts.new_flavor, cloud), *of_ports)


def of_flavor(flavor: Flavor, cloud: Cloud) -> tuple[PciRequest, ...]:
    """List what a flavor asks for. Raises: Invalid: it names an alias that the operator has not defined."""
    return flavor_requests(flavor.extra_specs.get(ALIAS, ""), cloud.rules.pci_alias)


def _of_port(port: MovedPort, served_by: Mapping[str, str]) -> PciRequest:
    names = [served_by[request.id] for request in port.requests if request.id in served_by]
    return PciRequest(id=port.nic.port_id, physnet=port.physnet, parent_ifname=_interface(names))


def _interface(names: list[str]) -> str | None:
    """Read a physical function's device out of the names of providers, HOST:AGENT:DEVICE; None: nothing pins it."""
    devices = {name.split(":")[2] for name in names if name.count(":") == 2}
    return devices.pop() if len(devices) == 1 else None


# A move


async def claim_devices(move: Move, cloud: Cloud) -> None:
    """Have the guest on the target hold its devices. Refused: they are not there, and an alternate's turn has come."""
    target = target_of(move)
    wanted = requests(move.facts, target.served_by, cloud)
    await cloud.cell(target.cell).devices.claim(move.order, target.host, key_at(move, target), wanted)


async def release_devices(move: Move, cloud: Cloud) -> None:
    await _release(move, target_of(move), cloud)


async def release_old_devices(move: Move, cloud: Cloud) -> None:
    await _release(move, source_of(move), cloud)


async def _release(move: Move, place: Place, cloud: Cloud) -> None:
    await cloud.cell(place.cell).devices.release(move.order, place.host, key_at(move, place))


# Reading


async def shortage(
    cell: CellName, host: HostName, wanted: tuple[PciRequest, ...], cloud: Cloud
) -> TooFewDevices | None:
    """Say why a host has not the devices that are wanted."""
    nobody = GuestKey(ServerId(""), Slot(""))
    try:
        choose(await cloud.cell(cell).devices.of(host), nobody, wanted)
    except TooFewDevices as shortage:
        return shortage
    return None


async def held(move: Move, place: Place, cloud: Cloud) -> dict[str, list[PciDevice]]:
    """Give the devices that the guest of a place holds, by request."""
    found: dict[str, list[PciDevice]] = {}
    for one in await cloud.cell(place.cell).devices.of(place.host):
        if one.holder == key_at(move, place) and one.request is not None:
            found.setdefault(one.request, []).append(one.device)
    return found


def in_profile(device: PciDevice) -> dict[str, str | None]:
    """Give what a port's binding says of the device that serves it."""
    return {
        "pci_slot": device.address,
        "pci_vendor_info": f"{device.vendor_id}:{device.product_id}",
        "physical_network": device.physnet,
    }
