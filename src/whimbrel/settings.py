"""The settings file, cloud.toml: which cells and hosts there are, and the rules of the cloud.

Law: a file is taken whole or not at all. Whatever is wrong with it is said in one sentence that names the file, the
place and what to do.
"""

import re
import reprlib
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, cast

import msgspec
from msgspec import NODEFAULT, Meta, Struct, field

from whimbrel.domain.cards import Card, HostNet, Kbps
from whimbrel.domain.errors import Invalid
from whimbrel.domain.pci import PciAlias, PciDevice
from whimbrel.ports.cloud import Rules

DEFAULT_CLOUD = "cloud.toml"  # beside this module: the cloud that `whimbrel up` makes when it is given no file

CellNamed = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,30}$")]  # it names a schema in a database
HostNamed = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
ZoneNamed = Annotated[str, Meta(pattern=r"^(?!internal$)[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
Count = Annotated[int, Meta(ge=1, le=2**20)]
MemoryMib = Annotated[int, Meta(ge=1, le=2**30)]
DiskGib = Annotated[int, Meta(ge=1, le=2**30)]
Seconds = Annotated[float, Meta(ge=0, le=86400)]
Port = Annotated[int, Meta(ge=0, le=65535)]
Quota = Annotated[int, Meta(ge=-1, le=2**31 - 1)]

AN_AMOUNT = "a whole number, 1 or more"
A_NAME = "at most 63 letters, digits, dots, dashes and underscores, the first a letter or digit"
A_TIME = "a number of seconds from 0 to 86400"
A_BANDWIDTH = "a whole number of kbit a second; 0 has it not counted"
A_RATE = "a whole number of thousands of packets a second; 0 has them not counted"
AN_AZ_ON_MOVE = "'keep', 'prefer' or 'free'"
A_PCI_ID = "four hexadecimal digits, letters small, such as '8086'"

MUST_BE = {
    "cell": "a list of tables that begin with [[cell]], at least one",
    "cell.name": "at most 31 small letters, digits and underscores, the first a letter",
    "cell.host": "a list of tables that begin with [[cell.host]], at least one",
    "host.name": A_NAME,
    "host.zone": f"{A_NAME} (and not 'internal')",
    "host.vcpus": AN_AMOUNT,
    "host.memory_mib": f"{AN_AMOUNT}, of MiB",
    "host.disk_gib": f"{AN_AMOUNT}, of GiB",
    "host.driver": "'simulated' or 'libvirt'",
    "host.uri": "a libvirt connection such as 'qemu:///system'",
    "host.guests_dir": "a directory in which the guests' disks lie",
    "host.nbd_address": "an address of this host at which the cell's other hosts reach it",
    "host.virt_type": "'auto', 'kvm' or 'qemu'",
    "host.guest_nics": "'tap' or 'user'",
    "host.nic": "a list of tables that begin with [[cell.host.nic]]",
    "host.kpps": A_RATE,
    "host.egress_kpps": A_RATE,
    "host.ingress_kpps": A_RATE,
    "nic.name": "the name of a network device, such as 'ens5'",
    "nic.physnet": "the name of a physical network: at most 64 letters, digits, dashes and underscores",
    "nic.egress_kbps": A_BANDWIDTH,
    "nic.ingress_kbps": A_BANDWIDTH,
    "nic.vnic_types": "['normal'] or ['direct']",
    "host.pci": "a list of tables that begin with [[cell.host.pci]]",
    "pci.address": "a PCI address, letters small, such as '0000:81:00.1'",
    "pci.vendor_id": A_PCI_ID,
    "pci.product_id": A_PCI_ID,
    "pci.physnet": "the name of a physical network, whose ports may have this device",
    "pci.parent_ifname": "the network device of the physical function, such as 'ens1f0'",
    "rules.az_on_move": AN_AZ_ON_MOVE,
    "rules.az_on_move_of_projects": f"a table of project ids, each with {AN_AZ_ON_MOVE}",
    "rules.pci_alias": "a list of tables that begin with [[rules.pci_alias]]",
    "pci_alias.name": "a name, as flavors say it in pci_passthrough:alias",
    "pci_alias.vendor_id": A_PCI_ID,
    "pci_alias.product_id": A_PCI_ID,
    "listen.host": "an address of this machine, such as '127.0.0.1'",
    "listen.port": "a port number from 0 to 65535; 0 takes a free one",
    "volumes.zones": f"a list of names, each of {A_NAME}; without it the default zone and those of the hosts",
    "volumes.nbd_address": "an address of this machine at which the libvirt hosts reach volumes",
    "volumes.nbd_port": "a port number from 0 to 65535; 0 takes a free one and keeps it",
    "volumes.volumes_quota": "a whole number from -1, which means no limit, to 2147483647",
    "volumes.snapshots_quota": "a whole number from -1, which means no limit, to 2147483647",
    "volumes.gigabytes_quota": "a whole number of GiB from -1, which means no limit, to 2147483647",
    "volumes.per_volume_gigabytes_quota": "a whole number of GiB from -1, which means no limit, to 2147483647",
    "database.url": "'sqlite:///DIRECTORY' or 'postgresql://USER:PASSWORD@HOST/DATABASE'",
}
"""What each key must be, for the sentence that is said when it is not. Keys that are not here are times or rules."""

LEAST_RULE: dict[str, float] = {
    "max_attempts": 1,
    "patience_s": 1,
    "lease_s": 0.5,
    "cpu_allocation_ratio": 0.001,
    "ram_allocation_ratio": 0.001,
    "disk_allocation_ratio": 0.001,
    "key_pairs_quota": -1,
}
"""The least that a rule may be; 0 where it is not named."""
MOST_RULE = 1_000_000


class Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file."""


class HostTable(Table, frozen=True, kw_only=True, tag_field="driver"):
    name: HostNamed
    zone: ZoneNamed
    vcpus: Count
    memory_mib: MemoryMib
    disk_gib: DiskGib
    kpps: Kbps = 0  # how many thousands of packets a second it handles, both directions together; 0: not counted
    egress_kpps: Kbps = 0
    ingress_kpps: Kbps = 0
    cards: tuple[Card, ...] = field(default=(), name="nic")
    pci: tuple[PciDevice, ...] = ()  # the devices that servers may be given whole

    @property
    def net(self) -> HostNet:
        """Give what the network service knows of the host."""
        rates = {"kpps": self.kpps, "egress_kpps": self.egress_kpps, "ingress_kpps": self.ingress_kpps}
        return HostNet(host=self.name, cards=self.cards, **rates)


class SimulatedHost(HostTable, frozen=True, kw_only=True, tag="simulated"):
    """A host that is played by the program, with guests that cost nothing."""


class LibvirtHost(HostTable, frozen=True, kw_only=True, tag="libvirt"):
    """A host that a libvirt daemon drives."""

    uri: Annotated[str, Meta(pattern=r"^[a-z+]+://")]
    guests_dir: Annotated[str, Meta(min_length=1)] | None = None  # None: in the data directory
    nbd_address: Annotated[str, Meta(min_length=1)] = "127.0.0.1"  # where the cell's other hosts read a disk that moves
    virt_type: Literal["auto", "kvm", "qemu"] = "auto"  # auto: KVM where the processor has it, else emulation
    guest_nics: Literal["tap", "user"] = "tap"  # user: QEMU's own network, cut off, for where nobody may make a tap


class CellTable(Table, frozen=True, kw_only=True):
    name: CellNamed
    hosts: Annotated[tuple[SimulatedHost | LibvirtHost, ...], Meta(min_length=1)] = field(name="host")


class SimulatedTimes(Table, frozen=True, kw_only=True):
    """How long simulated hosts take, so that people have something to watch."""

    reserve_s: Seconds = 0.0
    build_disk_s: Seconds = 0.0
    copy_disk_s: Seconds = 0.0
    snapshot_s: Seconds = 0.0
    start_s: Seconds = 0.0
    stop_s: Seconds = 0.0


class Listen(Table, frozen=True, kw_only=True):
    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    port: Port = 8774


class DatabaseTable(Table, frozen=True, kw_only=True):
    url: Annotated[str, Meta(pattern=r"^(sqlite|postgresql)://")]


class VolumesTable(Table, frozen=True, kw_only=True):
    """The embedded volume service."""

    zones: Annotated[tuple[ZoneNamed, ...], Meta(min_length=1)] | None = None
    nbd_address: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    nbd_port: Port = 0
    volumes_quota: Quota = 10
    snapshots_quota: Quota = 10
    gigabytes_quota: Quota = 1000
    per_volume_gigabytes_quota: Quota = -1

    @property
    def limits(self) -> dict[str, int]:
        """Give what a project may have for which nothing else is set."""
        fields = msgspec.structs.asdict(self)
        return {name.removesuffix("_quota"): limit for name, limit in fields.items() if name.endswith("_quota")}


class CloudConfig(Table, frozen=True, kw_only=True):
    """A whole cloud.toml."""

    cells: Annotated[tuple[CellTable, ...], Meta(min_length=1)] = field(name="cell")
    rules: Rules = Rules()
    simulated: SimulatedTimes = SimulatedTimes()
    listen: Listen = Listen()
    volumes: VolumesTable = VolumesTable()
    database: DatabaseTable | None = None

    def volume_zones(self) -> tuple[str, ...]:
        """List the zones in which volumes can lie; the first is that of volumes for which nobody names one."""
        default = self.rules.default_availability_zone
        return self.volumes.zones or tuple(dict.fromkeys([default, *(host.zone for _, host in self.hosts())]))

    def hosts(self) -> Iterator[tuple[CellTable, SimulatedHost | LibvirtHost]]:
        for cell in self.cells:
            for host in cell.hosts:
                yield cell, host


def load(path: Path | None) -> CloudConfig:
    """Read a file, None: the default cloud. Raises: Invalid."""
    name = str(path) if path else "the default cloud.toml"
    tables = _parsed(name, _text(path))
    try:
        config: Any = msgspec.convert(tables, _CLOUD_FILE, strict=True)
    except msgspec.ValidationError as error:
        raise Invalid(f"{name}: {_sentence(str(error), tables)}") from None
    _check_unique(name, config)
    rules = Rules(**msgspec.structs.asdict(config.rules))
    return CloudConfig(**{**msgspec.structs.asdict(config), "rules": rules})


def _text(path: Path | None) -> str:
    if path is None:
        return resources.files("whimbrel").joinpath(DEFAULT_CLOUD).read_text()
    try:
        return path.read_text()
    except UnicodeDecodeError:
        raise Invalid(f"{path} is not a text file in UTF-8: give a cloud.toml") from None
    except OSError as error:
        raise Invalid(f"{path} cannot be read ({error.strerror}): name a file that is there and readable") from None


def _parsed(name: str, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{name} is not valid TOML: {error}; correct it there") from None


def _check_unique(name: str, config: CloudConfig) -> None:
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


def _limited_rules() -> Any:
    """Make a table of the same fields as Rules that knows the least of each."""
    fields: list[tuple[str, Any, Any]] = []
    for rule in msgspec.structs.fields(Rules):
        limit = Meta(ge=LEAST_RULE.get(rule.name, 0), le=MOST_RULE)
        limited = Annotated[rule.type, limit] if rule.type in (int, float) else rule.type
        table = field(default_factory=rule.default_factory) if rule.default is NODEFAULT else rule.default
        fields.append((rule.name, limited, table))
    return msgspec.defstruct("RulesTable", fields, bases=(Table,), frozen=True, kw_only=True)


_RULES_TABLE = _limited_rules()
_CLOUD_FILE = msgspec.defstruct(
    "CloudFile", [("rules", _RULES_TABLE, _RULES_TABLE())], bases=(CloudConfig,), frozen=True, kw_only=True
)

# Sentences: msgspec says what is wrong and at which path; people need the place and what to do.

_TABLES: dict[str, Any] = {
    "": CloudConfig,
    "cell": CellTable,
    "nic": Card,
    "pci": PciDevice,
    "rules": Rules,
    "pci_alias": PciAlias,
    "simulated": SimulatedTimes,
    "listen": Listen,
    "volumes": VolumesTable,
    "database": DatabaseTable,
}


class _Place(NamedTuple):
    table: str  # the kind of table, "" for the file itself
    key: str  # "": the table as a whole
    value: Any
    words: str


def _sentence(error: str, tables: dict[str, Any]) -> str:
    what, _, path = error.partition(" - at `")
    at = _place(tables, path.rstrip("`"))
    if found := re.match(r"Object contains unknown field `(.*)`", what):
        known = ", ".join(_known(at.table, at.value))
        return f"{at.words} has an unknown key '{found[1]}'; remove it, or use one of: {known}"
    if found := re.match(r"Object missing required field `(.*)`", what):
        return f"{at.words} has no '{found[1]}'; give it {_must_be(at.table, found[1])}"
    if not at.key:
        return f"{at.words} is {reprlib.repr(at.value)}; it must be a table"
    return f"{at.words}: '{at.key}' is {reprlib.repr(at.value)}; it must be {_must_be(at.table, at.key)}"


def _place(tables: dict[str, Any], path: str) -> _Place:
    """Follow a path such as `$.cell[0].host[1].vcpus` through the file."""
    table, key, value, words = "", "", tables, "the file"
    for name, number in re.findall(r"\.(\w+)|\[(\d+)\]", path):
        if number and key not in _HEADS:
            break  # a list of plain values is told of as a whole
        if number:
            table, key, value = key, "", cast(Any, value)[int(number)]
            outer = "" if words in ("the file", "[rules]") else f" of {words}"
            words = f"{_HEADS[table]} number {int(number) + 1}{_called(value)}{outer}"
            continue
        if key:
            table, words = key, f"[{key}]"
        key, value = name, value[name]
    if key in ("rules", "simulated", "listen", "volumes", "database") and isinstance(value, dict):
        return _Place(key, "", value, f"[{key}]")
    return _Place(table, key, value, words)


_HEADS = {
    "cell": "[[cell]]",
    "host": "[[cell.host]]",
    "nic": "[[cell.host.nic]]",
    "pci": "[[cell.host.pci]]",
    "pci_alias": "[[rules.pci_alias]]",
}


def _called(value: Any) -> str:
    name = value.get("name") if isinstance(value, dict) else None
    return f" ('{name}')" if isinstance(name, str) else ""


def _known(table: str, value: Any) -> list[str]:
    """List the keys of a table of the file."""
    host = LibvirtHost if isinstance(value, dict) and value.get("driver") == "libvirt" else SimulatedHost
    keys = [each.encode_name for each in msgspec.structs.fields(_TABLES.get(table, host))]
    return [*keys, "driver"] if table == "host" else keys


def _must_be(table: str, key: str) -> str:
    if table == "simulated":
        return A_TIME
    if table == "rules" and f"rules.{key}" not in MUST_BE:
        return _rule_must_be(key)
    return MUST_BE.get(f"{table}.{key}" if table else key, "a table")


def _rule_must_be(key: str) -> str:
    kind = {rule.name: rule.type for rule in msgspec.structs.fields(Rules)}[key]
    if kind not in (int, float):
        return "true or false" if kind is bool else "a text"
    number = "a whole number" if kind is int else "a number"
    return f"{number} from {LEAST_RULE.get(key, 0):g} to {MOST_RULE}"
