"""Validation of a file as a whole: unique names, and rules that fit its hosts."""

from collections.abc import Collection
from ipaddress import ip_network

from whimbrel.adapters.sql.engine.urls import check_url
from whimbrel.domain.errors import Invalid
from whimbrel.domain.ip_addresses import is_loopback, is_plain_beyond_loopback
from whimbrel.domain.live_policy import policy_of
from whimbrel.settings.cell_sections import LibvirtHost, RedfishFence
from whimbrel.settings.external import check_keystone
from whimbrel.settings.host_checks import check_host, twice
from whimbrel.settings.rules import wrong_with
from whimbrel.settings.sections import CloudConfig
from whimbrel.settings.transport import is_in


def check(name: str, config: CloudConfig) -> None:
    """Check the whole file: hosts and cells are identified by name in the whole cloud. Raises: Invalid."""
    cells: set[str] = set()
    homes: dict[str, str] = {}
    for cell in config.cells:
        if cell.name in cells:
            raise Invalid(f"{name}: two cells are called '{cell.name}'; give one of them another name")
        cells.add(cell.name)
    for cell, host in config.hosts():
        if host.name in homes:
            where = f"in cell '{cell.name}'"
            where += "" if homes[host.name] == cell.name else f" and in cell '{homes[host.name]}'"
            raise Invalid(f"{name}: host '{host.name}' is there twice, {where}; give one of them another name")
        homes[host.name] = cell.name
    for number, cell in enumerate(config.cells, 1):
        if not cell.hosts and not config.bus.urls:
            raise Invalid(
                f"{name}: [[cell]] number {number} ('{cell.name}') has no 'host'; give it a list of tables that begin"
                " with [[cell.host]], or a [bus] at which hosts join"
            )
    _check_databases(name, config)
    _check_transport(name, config)
    check_keystone(name, config)
    _check_exports(name, config)
    _check_reach(name, config)
    _check_pci_aliases(name, config)
    _check_fences(name, config, homes)
    _check_vendor_data(name, config)
    _check_self_fencing(name, config)
    for _, host in config.hosts():
        check_host(name, host, config.storage.network)
    for project in config.rules.live.of_projects:
        try:
            policy_of(config.rules.live, project, {}, {})
        except Invalid as mistake:
            raise Invalid(f"{name}: [moves.live.of_projects.{project}]: {mistake.reason}") from None
    if wrong := wrong_with(config.rules.scheduler, homes):
        raise Invalid(f"{name}: [rules.scheduler]: {wrong}")


def _check_vendor_data(name: str, config: CloudConfig) -> None:
    """Raises: Invalid: two services have one name, or tokens would be sent to other machines without TLS."""
    guests, names = config.guests, {"static"}
    for target in guests.vendordata_dynamic_targets:
        called, _, url = target.partition("@")
        if called in names:
            raise Invalid(
                f"{name}: [guests]: 'vendordata_dynamic_targets' has '{called}' twice, or is the name of the static"
                " data; give it another name"
            )
        names.add(called)
        if guests.vendordata_dynamic_auth and is_plain_beyond_loopback(url):
            raise Invalid(
                f"{name}: [guests]: 'vendordata_dynamic_targets' has {url}, and tokens would be sent there without TLS;"
                " write https://, or remove 'vendordata_dynamic_auth'"
            )


def _check_databases(name: str, config: CloudConfig) -> None:
    """Raises: Invalid: the driver does not understand a URL."""
    urls = {f"cell '{cell.name}'": cell.database for cell in config.cells if cell.database}
    if config.database.url:
        urls["[database]"] = config.database.url
    for place, url in urls.items():
        try:
            check_url(url)
        except Invalid as mistake:
            raise Invalid(f"{name}: {place}: {mistake.reason}") from None


def _check_transport(name: str, config: CloudConfig) -> None:
    """Raises: Invalid: secrets would be sent to other machines without TLS."""
    services = config.services
    keys = ("url", "identity", "compute", "network", "placement", "image", "image_relay", "volume", "console")
    for key, url in ((key, getattr(services, key)) for key in keys):
        if url and not services.insecure and is_plain_beyond_loopback(url):
            raise Invalid(
                f"{name}: [services]: '{key}' is {url}, and tokens would be sent there without TLS; write https://,"
                " or set 'insecure = true' in [services]"
            )
    for url in config.bus.urls:
        if not config.bus.insecure and is_plain_beyond_loopback(url):
            raise Invalid(f"{name}: [bus]: {url} is not encrypted; write tls://, or set 'insecure = true' in [bus]")


def _check_exports(name: str, config: CloudConfig) -> None:
    """Ensure that disks are served inside the storage network only: NBD has no authentication. Raises: Invalid."""
    network = config.storage.network
    try:
        within = ip_network(network) if network else None
    except ValueError as error:
        raise Invalid(f"{name}: [storage]: 'network' is '{network}': {error}; write it such as '10.1.0.0/24'") from None
    served = {f"host '{host.name}'": host.nbd_address for _, host in config.hosts() if isinstance(host, LibvirtHost)}
    for place, address in {**served, "[volumes]": config.volumes.nbd_address}.items():
        if not is_loopback(address) and not (within and is_in(address, within)):
            raise Invalid(
                f"{name}: {place} has the 'nbd_address' '{address}', where everybody who reaches it could read and"
                " write disks; give it an address of this machine inside the 'network' of [storage], which only hosts"
                " reach, or 127.0.0.1"
            )


def _check_reach(name: str, config: CloudConfig) -> None:
    """Ensure that a cell reaches the physical networks of its hosts' NICs and devices. Raises: Invalid."""
    for cell, host in config.hosts():
        if cell.physnets is None:
            continue
        has = [*(card.physnet for card in host.cards), *(device.physnet for device in host.pci if device.physnet)]
        if other := [physnet for physnet in has if physnet not in cell.physnets]:
            raise Invalid(
                f"{name}: host '{host.name}' is on the physical network '{other[0]}', which is not among the 'physnets'"
                f" of its cell '{cell.name}'; put it there, or remove it from the host"
            )


def _check_pci_aliases(name: str, config: CloudConfig) -> None:
    """Raises: Invalid: a kind of devices is not unique by its alias."""
    if alias := twice([alias.name for alias in config.rules.pci_alias]):
        raise Invalid(f"{name}: two PCI aliases are called '{alias}'; give one of them another name")


def _check_fences(name: str, config: CloudConfig, hosts: Collection[str]) -> None:
    """Ensure that a host has one fence device, and that its password is not sent in the clear. Raises: Invalid."""
    if host := twice([fence.host for fence in config.fences]):
        raise Invalid(f"{name}: host '{host}' has two tables [[fence]]; remove one of them")
    for fence in config.fences:
        if fence.host not in hosts and not config.bus.urls:
            raise Invalid(
                f"{name}: [[fence]] has the host '{fence.host}', and no host is called that; name one that the file"
                " has, or remove the table"
            )
        if isinstance(fence, RedfishFence) and not fence.insecure and is_plain_beyond_loopback(fence.address):
            raise Invalid(
                f"{name}: [[fence]] of host '{fence.host}': the password would be sent to {fence.address} without TLS;"
                " write https://, or set 'insecure = true' there"
            )


def _check_self_fencing(name: str, config: CloudConfig) -> None:
    """Raises: Invalid: a host without an agent process of its own is to fence itself."""
    for _, host in config.hosts():
        if host.self_fence_s is not None:
            raise Invalid(
                f"{name}: host '{host.name}' has 'self_fence_s', but it has no agent process that could lose the cloud;"
                " set it in [host] of a host that has joined, or remove it"
            )
