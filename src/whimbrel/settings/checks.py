"""What is asked of a file as a whole: names that are there once, and rules that fit its hosts."""

from whimbrel.domain.errors import Invalid
from whimbrel.settings.rules import wrong_with
from whimbrel.settings.tables import CloudConfig


def check(name: str, config: CloudConfig) -> None:
    """Hosts and cells are known by their names alone, in the whole cloud."""
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
    _check_nics(name, config)
    _check_pci(name, config)
    if wrong := wrong_with(config.rules.scheduler, homes):
        raise Invalid(f"{name}: [rules.scheduler]: {wrong}")


def _check_nics(name: str, config: CloudConfig) -> None:
    """A card is known by its host and name; packets are counted in one way."""
    for _, host in config.hosts():
        if card := _twice([card.name for card in host.cards]):
            raise Invalid(f"{name}: host '{host.name}' has the network card '{card}' twice; remove one of them")
        if host.kpps and (host.egress_kpps or host.ingress_kpps):
            raise Invalid(
                f"{name}: host '{host.name}' counts packets together and by direction; give it 'kpps', or"
                " 'egress_kpps' and 'ingress_kpps'"
            )


def _check_pci(name: str, config: CloudConfig) -> None:
    """A device is known by its host and address, a kind of devices by its alias."""
    for _, host in config.hosts():
        if address := _twice([device.address for device in host.pci]):
            raise Invalid(f"{name}: host '{host.name}' has the PCI device '{address}' twice; remove one of them")
    if alias := _twice([alias.name for alias in config.rules.pci_alias]):
        raise Invalid(f"{name}: two PCI aliases are called '{alias}'; give one of them another name")


def _twice(names: list[str]) -> str | None:
    return next((each for each in names if names.count(each) > 1), None)
