"""The types of values in cloud.toml, and the base of its tables."""

from typing import Annotated

from msgspec import Meta, Struct

CellNamed = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,30}$")]  # it names a schema in a database
HostNamed = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
ZoneNamed = Annotated[str, Meta(pattern=r"^(?!internal$)[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
TraitNamed = Annotated[str, Meta(pattern=r"^[A-Z][A-Z0-9_]{0,254}$")]
ClassNamed = Annotated[str, Meta(pattern=r"^[A-Z][A-Z0-9_]{0,254}$")]
DatabaseUrl = Annotated[str, Meta(pattern=r"^(sqlite:///.|postgresql(\+psycopg)?://)")]  # not in memory
LimitNamed = Annotated[str, Meta(pattern=r"^(servers|server_[a-z_]+|class:[A-Z][A-Z0-9_]*)$")]
PhysnetNamed = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
StorageNamed = Annotated[str, Meta(pattern=r"^[^@#\s]{1,255}$")]
HttpUrl = Annotated[str, Meta(pattern=r"^https?://[^/\s]+")]
VendorDataTarget = Annotated[str, Meta(pattern=r"^[^@/\s]+@https?://[^/\s]+")]
BrokerUrl = Annotated[str, Meta(pattern=r"^(rabbit|amqp|kombu)://[^/\s]+")]
BusUrl = Annotated[str, Meta(pattern=r"^(nats|tls)://[^/\s]+$")]
OneAddress = Annotated[str, Meta(pattern=r"^(?!0\.0\.0\.0$|::$).+$")]  # other machines connect to it
OriginHost = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]*$")]
Ipv4Address = Annotated[str, Meta(pattern=r"^[0-9]{1,3}(\.[0-9]{1,3}){3}$")]
FileNamed = Annotated[str, Meta(min_length=1)]
CloudIdentifier = Annotated[str, Meta(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
Count = Annotated[int, Meta(ge=1, le=2**20)]
MemoryMib = Annotated[int, Meta(ge=1, le=2**30)]
DiskGib = Annotated[int, Meta(ge=1, le=2**30)]
Seconds = Annotated[float, Meta(ge=0, le=86400)]
Timeout = Annotated[float, Meta(ge=0.01, le=86400)]
Port = Annotated[int, Meta(ge=0, le=65535)]
Quota = Annotated[int, Meta(ge=-1, le=2**31 - 1)]


class Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file."""
