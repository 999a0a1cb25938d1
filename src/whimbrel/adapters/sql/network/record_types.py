"""The kinds of records: table, and conversion between rows and records."""

from collections.abc import Sequence
from typing import Any, Final, Generic

import msgspec
import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.tables import network as tables
from whimbrel.domain.errors import NotFound
from whimbrel.ports.embedded.network_store import (
    FloatingIp,
    Network,
    Port,
    QosPolicy,
    QosRule,
    R,
    Record,
    Router,
    SecurityGroup,
    SecurityGroupRule,
    Segment,
    Subnet,
)
from whimbrel.ports.services import network_errors as errors

_THESE: sa.BindParameter[list[str]] = sa.bindparam("these", expanding=True)


_TAGS = fixed(
    sa.select(tables.tags.c.record_id.label("whose"), tables.tags.c.tag.label("only"))
    .where(tables.tags.c.record_id.in_(_THESE))
    .order_by(tables.tags.c.tag)
)


def _parts(table: sa.Table, whose: str, order: Sequence[str], *only: str) -> sa.Select[Any]:
    """Select the rows of a table by the records that they belong to. only: this column, as a plain value."""
    columns = [table.c[only[0]].label("only")] if only else list(table.columns)
    statement = sa.select(table.c[whose].label("whose"), *columns).where(table.c[whose].in_(_THESE))
    return fixed(statement.order_by(*(table.c[name] for name in order)))


_PARTS: Final[dict[type[Record], tuple[tuple[str, sa.Select[Any]], ...]]] = {
    Network: (
        ("segments", _parts(tables.segments, "network_id", ("created_at", "id"))),
        ("subnets", _parts(tables.subnets, "network_id", ("created_at", "id"), "id")),
    ),
    Port: (
        ("fixed_ips", _parts(tables.fixed_ips, "port_id", ("place",))),
        (
            "security_groups",
            _parts(tables.port_security_groups, "port_id", ("security_group_id",), "security_group_id"),
        ),
        ("bindings", _parts(tables.bindings, "port_id", ("host",))),
    ),
    SecurityGroup: (("rules", _parts(tables.security_group_rules, "security_group_id", ("created_at", "id"))),),
    QosPolicy: (("rules", _parts(tables.qos_rules, "policy_id", ("created_at", "id"))),),
}


class Kind(Generic[R]):
    """A kind of record. parts: field -> the statement that reads its rows, by the record's id `whose`."""

    def __init__(self, record: type[R], table: sa.Table, missing: type[NotFound], word: str) -> None:
        self.record = record
        self.table = table
        self.word = word
        self.columns = [str(column.name) for column in table.columns]  # plain str: SQLAlchemy has a subclass
        self._missing = missing
        self._find = fixed(sa.select(table).where(table.c.id == sa.bindparam("this")))
        self._lock = fixed(sa.select(table).where(table.c.id == sa.bindparam("this")).with_for_update())
        self.insert = fixed(sa.insert(table))
        changed: dict[str, sa.BindParameter[Any]] = {name: sa.bindparam(f"new_{name}") for name in self.columns}
        as_read = (table.c.id == sa.bindparam("this"), table.c.revision == sa.bindparam("read"))
        self.update = fixed(sa.update(table).where(*as_read).values(changed))
        self._parts = (("tags", _TAGS), *_PARTS.get(record, ()))

    def missing(self, record_id: str) -> NotFound:
        return self._missing(f"{self.word} {record_id} could not be found.")

    def row(self, record: R) -> dict[str, Any]:
        whole = msgspec.to_builtins(record)
        return {name: whole[name] for name in self.columns}

    def changes(self, before: R, now: R) -> dict[str, Any]:
        """Return the values for `update`, which changes a record only if it is unchanged since it was read."""
        new = {f"new_{name}": value for name, value in self.row(now).items()}
        return {"this": before.id, "read": before.revision, **new}

    async def find(self, tx: Tx, record_id: str, *, lock: bool = False) -> R:
        """Raises: NotFound, of the kind."""
        row = await tx.row(self._lock if lock else self._find, {"this": record_id})
        if row is None:
            raise self.missing(record_id)
        return (await self.records(tx, [row]))[0]

    async def records(self, tx: Tx, rows: Sequence[Any]) -> list[R]:
        """Convert rows to records, including their parts."""
        if not rows:
            return []
        values: dict[str, dict[str, Any]] = {row.id: dict(zip(self.columns, row, strict=True)) for row in rows}
        these = {"these": list(values)}
        found = await tx.ask(*((statement, these) for _, statement in self._parts))
        for (field, _), parts in zip(self._parts, found, strict=True):
            for value in values.values():
                value[field] = []
            for part in parts:
                whole = part._mapping
                values[part.whose][field].append(whole.get("only", whole))
        return [msgspec.convert(value, self.record) for value in values.values()]


NETWORK: Final = Kind(Network, tables.networks, errors.NetworkNotFound, "Network")
SEGMENT: Final = Kind(Segment, tables.segments, errors.SegmentNotFound, "Segment")
SUBNET: Final = Kind(Subnet, tables.subnets, errors.SubnetNotFound, "Subnet")
PORT: Final = Kind(Port, tables.ports, errors.PortNotFound, "Port")
GROUP: Final = Kind(SecurityGroup, tables.security_groups, errors.SecurityGroupNotFound, "Security group")
GROUP_RULE: Final = Kind(
    SecurityGroupRule, tables.security_group_rules, errors.SecurityGroupRuleNotFound, "Security group rule"
)
POLICY: Final = Kind(QosPolicy, tables.qos_policies, errors.QosPolicyNotFound, "QoS policy")
QOS_RULE: Final = Kind(QosRule, tables.qos_rules, errors.QosRuleNotFound, "QoS rule")
ROUTER: Final = Kind(Router, tables.routers, errors.RouterNotFound, "Router")
FLOATING: Final = Kind(FloatingIp, tables.floating_ips, errors.FloatingIPNotFound, "Floating IP")

KINDS: Final[dict[type[Record], Kind[Any]]] = {
    kind.record: kind
    for kind in (NETWORK, SEGMENT, SUBNET, PORT, GROUP, GROUP_RULE, POLICY, QOS_RULE, ROUTER, FLOATING)
}
