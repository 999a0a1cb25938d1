"""The PCI devices that a server requests: by its flavor's aliases, and one for each port of vnic type direct.

A port's device is a virtual function of the physical function on which its bandwidth was claimed. Pure.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from whimbrel.domain.flavor import Flavor
from whimbrel.domain.pci import ALIAS, DIRECT, PciRequest, flavor_requests
from whimbrel.moves.facts import MovedPort, MoveFacts
from whimbrel.ports.cloud import Cloud


def wants_pci(facts: MoveFacts) -> bool:
    return _needs(facts, facts.new_flavor)


def had_pci(facts: MoveFacts) -> bool:
    return facts.old_flavor is not None and _needs(facts, facts.old_flavor)


def _needs(facts: MoveFacts, flavor: Flavor) -> bool:
    return ALIAS in flavor.extra_specs or any(port.nic.vnic_type == DIRECT for port in facts.ports)


def requested_devices(facts: MoveFacts, served_by: Mapping[str, str], cloud: Cloud) -> tuple[PciRequest, ...]:
    """Return the requests to a host. served_by: request of a port -> name of the provider that serves it there.

    Raises: Invalid: the flavor names an undefined alias.
    """
    of_ports = (_of_port(port, served_by) for port in facts.ports if port.nic.vnic_type == DIRECT)
    of_flavor = devices_of_flavor(facts.new_flavor, cloud)
    if facts.live:  # its devices move with their state, which only such devices can take over
        of_flavor = tuple(replace(request, live_migratable=True) for request in of_flavor)
    return (*of_flavor, *of_ports)


def devices_of_flavor(flavor: Flavor, cloud: Cloud) -> tuple[PciRequest, ...]:
    """Return a flavor's requests. Raises: Invalid: it names an undefined alias."""
    return flavor_requests(flavor.extra_specs.get(ALIAS, ""), cloud.rules.pci_alias)


def _of_port(port: MovedPort, served_by: Mapping[str, str]) -> PciRequest:
    names = [served_by[request.id] for request in port.requests if request.id in served_by]
    return PciRequest(id=port.nic.port_id, physnet=port.physnet, parent_ifname=_interface(names))


def _interface(names: list[str]) -> str | None:
    """Return the physical function's device from provider names HOST:AGENT:DEVICE. None: any device will do."""
    devices = {name.split(":")[2] for name in names if name.count(":") == 2}
    return devices.pop() if len(devices) == 1 else None
