"""The rules of one host's settings, which stand in the file of its cell or in that of its agent."""

from ipaddress import ip_network
from urllib.parse import urlsplit

from whimbrel.domain.errors import Invalid
from whimbrel.domain.ip_addresses import is_loopback
from whimbrel.domain.resources import DISK_GB, MEMORY_MB, PCPU, VCPU
from whimbrel.placement import resource_names as names
from whimbrel.ports.placement.placement import DISABLED
from whimbrel.settings.cell_sections import HostTable, LibvirtHost, SimulatedHost
from whimbrel.settings.transport import is_in


def check_host(name: str, host: SimulatedHost | LibvirtHost, network: str | None) -> None:
    """Raises: Invalid. name: of the file, for errors. network: of storage."""
    checks = [_wrong_nics(host), _wrong_pci(host), _wrong_names(host)]
    if isinstance(host, LibvirtHost):
        checks += [_wrong_migration(host, network), _wrong_machine(host)]
    if wrong := next(filter(None, checks), None):
        raise Invalid(f"{name}: host '{host.name}' {wrong}")


def twice(names: list[str]) -> str | None:
    return next((each for each in names if names.count(each) > 1), None)


def _wrong_migration(host: LibvirtHost, network: str | None) -> str | None:
    """Return an error if servers' memory would be sent where others can read it."""
    address = host.migration_address
    if address is None or host.migration_tls or is_loopback(address):
        return None
    if network and is_in(address, ip_network(network)):
        return None
    return (
        f"has the 'migration_address' '{address}', where others could read the memory of servers; set"
        " 'migration_tls = true', or write an address inside the 'network' of [storage], which only hosts reach"
    )


def _wrong_machine(host: LibvirtHost) -> str | None:
    """Return an error if the libvirt daemon is on another machine."""
    if _is_local(host.uri):
        return None
    return (
        f"has the 'uri' '{host.uri}', a libvirt of another machine; the disks of its guests would be made on this"
        " machine, by qemu-img: use a libvirt of this machine, such as 'qemu:///system', and run an agent on the other"
        " one, which `whimbrel host invite` admits"
    )


def _is_local(uri: str) -> bool:
    """Check whether a libvirt URI is local. Source: libvirt.org/uri.html."""
    parts = urlsplit(uri)
    return not parts.netloc and parts.scheme.partition("+")[2] in ("", "unix")


def _wrong_nics(host: HostTable) -> str | None:
    """Return an error if a NIC is not unique by its name, or packets are counted in two ways."""
    if card := twice([card.name for card in host.cards]):
        return f"has the network card '{card}' twice; remove one of them"
    if host.kpps and (host.egress_kpps or host.ingress_kpps):
        return "counts packets together and by direction; give it 'kpps', or 'egress_kpps' and 'ingress_kpps'"
    return None


def _wrong_pci(host: HostTable) -> str | None:
    """Return an error if a device is not unique by its address."""
    address = twice([device.address for device in host.pci])
    return f"has the PCI device '{address}' twice; remove one of them" if address else None


def _wrong_names(host: HostTable) -> str | None:
    """Return an error about an unknown trait or resource class, or one that another key sets; None: all are valid."""
    own_keys = {VCPU: "vcpus", PCPU: "dedicated_vcpus", MEMORY_MB: "memory_mib", DISK_GB: "disk_gib"}
    for one in host.resources:
        if one in own_keys:
            return f"has {one} among its 'resources': set '{own_keys[one]}' instead"
        if one not in names.STANDARD_CLASSES and not names.is_custom(one):
            return f"has '{one}' among its 'resources', which is no resource class; one of your own begins with CUSTOM_"
    for one in host.traits:
        if not names.is_custom(one) and one not in names.standard_traits():
            return f"has '{one}' among its 'traits', which is no standard trait; one of your own begins with CUSTOM_"
        if one == DISABLED:
            return f"has {one} among its 'traits': disable its service instead"
    return None
