"""The hosts of one cell: service and hypervisor are one row.

Invariant: the host's own report (sizes, hypervisor) and the operator's settings (enabled, forced down) are written by
different methods; neither changes the other's columns. The session of a host only grows.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any

import msgspec
import sqlalchemy as sa

from whimbrel.adapters.sql.cell import host_news
from whimbrel.adapters.sql.cell.fences import pass_fence
from whimbrel.adapters.sql.cell.host_news import LAUNCHED_AT, SHOWN
from whimbrel.adapters.sql.engine.change_counter import Counting
from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.upserts import Insert, inserts, inserts_if_new
from whimbrel.adapters.sql.tables.cell import build_failures as failures
from whimbrel.adapters.sql.tables.cell import hosts, servers
from whimbrel.domain.errors import NotFound, Superseded
from whimbrel.domain.guest import Order
from whimbrel.domain.host import ForcedDown, Host
from whimbrel.domain.host_description import HostDescription
from whimbrel.domain.host_hardware import Hardware
from whimbrel.domain.ids import CellName, HostName
from whimbrel.domain.numa import NumaNode
from whimbrel.ports.stores.hosts import SAID_BY_THE_HOST, AgentInfo, HostNews, LastBeat

Row = sa.Row[tuple[object, ...]]

_NAMED = hosts.c.name == sa.bindparam("named")
_ALL = fixed(sa.select(*SHOWN).order_by(hosts.c.number))
_GET = fixed(sa.select(*SHOWN).where(_NAMED))
_DELETE = sa.delete(hosts).where(_NAMED)
_SEEN = fixed(
    sa.update(hosts)
    .where(hosts.c.name.in_(sa.bindparam("names", expanding=True)), hosts.c.seen_at < sa.bindparam("now"))
    .values(seen_at=sa.bindparam("now"))
)
_SWITCH = (
    sa.update(hosts)
    .where(_NAMED)
    .values(enabled=sa.bindparam("enabled"), disabled_reason=sa.bindparam("disabled_reason"))
    .returning(*SHOWN)
)
_SET_SERVICE = _SWITCH.values(
    forced_down=sa.bindparam("forced_down"),
    forced_down_by=sa.bindparam("by"),
    forced_down_reason=sa.bindparam("reason"),
    forced_down_at=sa.bindparam("at"),
)

_COLUMNS = [column.name for column in SHOWN if column.name not in ("number", "numa", "metrics", "session")]
_REGISTERED = (*_COLUMNS, "numa")


def _registering(insert: Insert) -> sa.Executable:
    new = insert.excluded
    written: dict[str, Any] = {name: new[name] for name in SAID_BY_THE_HOST}
    written["seen_at"] = sa.case((new.seen_at > hosts.c.seen_at, new.seen_at), else_=hosts.c.seen_at)
    insert = insert.values({name: sa.bindparam(name) for name in _REGISTERED})
    return insert.on_conflict_do_update(index_elements=["name"], set_=written).returning(*SHOWN)


_REGISTERS = inserts(hosts, _registering)
_INSERTS_IF_NEW = inserts(
    hosts,
    lambda insert: insert.values({name: sa.bindparam(name) for name in _REGISTERED}).on_conflict_do_nothing(),
)
_DESCRIBED: dict[str, Any] = {"description": sa.bindparam("described"), "hardware": sa.bindparam("found")}
_DESCRIBE = fixed(sa.update(hosts).where(_NAMED).values(**_DESCRIBED))
_DESCRIBE_AS_OF = (
    sa.update(hosts)
    .where(_NAMED, hosts.c.session == sa.bindparam("as_of"))
    .values(**_DESCRIBED)
    .returning(hosts.c.name)
)
_BEGIN = (
    sa.update(hosts)
    .where(_NAMED)
    .values(session=hosts.c.session + 1, agent=sa.bindparam("new_agent"), **_DESCRIBED)
    .returning(*SHOWN)
)
_RAISE = (
    sa.update(hosts).where(_NAMED, hosts.c.session < sa.bindparam("at_least")).values(session=sa.bindparam("at_least"))
)
_DESCRIPTIONS = fixed(sa.select(hosts.c.name, hosts.c.description))
_HARDWARE = fixed(sa.select(hosts.c.hardware).where(_NAMED))
_AGENTS = fixed(sa.select(hosts.c.name, hosts.c.agent).where(hosts.c.session > 0))
_AGENT = fixed(sa.select(hosts.c.session, hosts.c.agent).where(_NAMED))
_LAST_BEATS = fixed(
    sa.select(hosts.c.name, hosts.c.session, hosts.c.seen_at, hosts.c.description, hosts.c.metrics).where(
        hosts.c.name.in_(sa.bindparam("names", expanding=True))
    )
)
_TELL = fixed(sa.update(hosts).where(_NAMED).values(metrics=sa.bindparam("told")))

_nodes = lru_cache(maxsize=1024)(msgspec.json.Decoder(tuple[NumaNode, ...]).decode)  # most hosts are alike
_metrics = msgspec.json.Decoder(dict[str, float]).decode
_description = msgspec.json.Decoder(HostDescription).decode
_hardware = msgspec.json.Decoder(Hardware).decode
_agent = msgspec.json.Decoder(AgentInfo).decode
NOTHING_TOLD = "{}"

_FAILED_THERE = failures.c.host == sa.bindparam("named")
_FORGIVE = fixed(
    sa.delete(failures).where(
        _FAILED_THERE,
        failures.c.at <= sa.select(LAUNCHED_AT).where(servers.c.host == sa.bindparam("named")).scalar_subquery(),
    )
)
_FORGET_FAILED = fixed(sa.delete(failures).where(_FAILED_THERE))
_FAILED = inserts_if_new(failures)


def _values(host: Host) -> dict[str, object]:
    return {**{name: getattr(host, name) for name in _COLUMNS}, "numa": msgspec.json.encode(host.numa).decode()}


def _texts(description: HostDescription) -> dict[str, object]:
    """Encode a description so that the hash of the first text is its digest, and the hardware, as the second one."""
    said = msgspec.json.encode(description.without_hardware(), order="deterministic").decode()
    return {
        "described": said,
        "found": msgspec.json.encode(description.hardware).decode() if description.hardware else "",
    }


def _told(metrics: str) -> dict[str, float]:
    return {} if metrics == NOTHING_TOLD else _metrics(metrics)


class SqlHosts(Counting):
    """Implements ports.stores.hosts.Hosts for the cell of this name."""

    def __init__(self, db: Database, cell: CellName) -> None:
        super().__init__(db)
        self._cell = cell
        self._agents: dict[HostName, tuple[int, AgentInfo]] = {}  # host -> session, its agent
        self._register = _REGISTERS[db.dialect]
        self._insert_if_new = _INSERTS_IF_NEW[db.dialect]
        self._failed = _FAILED[db.dialect]

    async def all(self) -> list[Host]:
        return [self._host(row) for row in await self._db.rows(_ALL)]

    async def get(self, name: HostName) -> Host:
        async with self._db.look() as tx:
            return self._found(name, await tx.row(_GET, {"named": name}))

    async def news(self, mark: int | None, *, images: bool = False) -> HostNews:
        async with self._db.urgent.read() as tx:  # all decisions wait for it
            next_mark, newest, changed, found = await host_news.read(tx, mark, images)
        if not found:
            return HostNews(mark=next_mark, newest=newest, changed=changed)
        rows, loads, devices, failed, *more = found
        by_image: dict[HostName, dict[str, int]] = {}
        for host, image, number in more[0] if more else ():
            by_image.setdefault(HostName(host), {})[image] = number
        return HostNews(
            mark=next_mark,
            newest=newest,
            changed=changed,
            hosts=[self._host(row) for row in rows],
            loads=host_news.loads_of(loads, devices, failed),
            images=by_image,
        )

    async def beats(self) -> dict[HostName, tuple[float, dict[str, float]]]:
        async with self._db.urgent.read() as tx:
            rows = await host_news.beats(tx)
        return {HostName(name): (seen_at, _told(metrics)) for name, seen_at, metrics in rows}

    async def forget_news(self, until: int) -> None:
        async with self._db.write() as tx:
            await host_news.forget(tx, until)

    async def register(self, host: Host) -> Host:
        [registered] = await self.register_all([host])
        return registered

    async def register_all(
        self, hosts: Sequence[Host], described: Mapping[HostName, HostDescription] | None = None
    ) -> list[Host]:
        async with self._changing() as tx:
            asked = ((self._register, _values(host)) for host in sorted(hosts, key=lambda host: host.name))
            rows = await tx.ask(*asked)
            if described:
                told = [{"named": name, **_texts(description)} for name, description in described.items()]
                await tx.tell(_DESCRIBE, told)
        found = {row.name: self._host(row) for [row] in rows}
        return [found[host.name] for host in hosts]

    async def begin_session(self, host: Host, agent: AgentInfo, description: HostDescription) -> Host:
        async with self._changing() as tx:
            # Two first sessions at once: on PostgreSQL the upsert alone may meet the other unique columns first.
            await tx.run(self._insert_if_new, _values(host))
            await tx.run(self._register, _values(host))
            begun = {"new_agent": msgspec.json.encode(agent).decode(), **_texts(description)}
            return self._found(host.name, await tx.row(_BEGIN, {"named": host.name, **begun}))

    async def raise_sessions(self, sessions: Mapping[HostName, int]) -> None:
        async with self._changing() as tx:
            for name, session in sorted(sessions.items()):
                await tx.run(_RAISE, {"named": name, "at_least": session})

    async def describe(self, host: Host, session: int, description: HostDescription) -> Host:
        async with self._changing() as tx:
            asked = {"named": host.name, "as_of": session, **_texts(description)}
            if await tx.row(_DESCRIBE_AS_OF, asked) is None:
                raise Superseded(f"session {session} of host {host.name} is not its newest")
            return self._found(host.name, await tx.row(self._register, _values(host)))

    async def descriptions(self) -> dict[HostName, HostDescription]:
        rows = await self._db.rows(_DESCRIPTIONS)
        return {HostName(name): _description(text) for name, text in rows if text != NOTHING_TOLD}

    async def hardware(self, name: HostName) -> Hardware | None:
        row = await self._db.row(_HARDWARE, {"named": name})
        return _hardware(row.hardware) if row and row.hardware else None

    async def agent(self, host: Host) -> AgentInfo:
        if not host.session:
            return AgentInfo()
        known = self._agents.get(host.name)
        if known is None or known[0] < host.session:
            row = await self._db.row(_AGENT, {"named": host.name})
            if row is None:
                raise NotFound(f"Compute host {host.name} could not be found.")
            known = self._agents[host.name] = row.session, _agent(row.agent)
        return known[1]

    async def agents(self) -> dict[HostName, AgentInfo]:
        return {HostName(name): _agent(text) for name, text in await self._db.rows(_AGENTS)}

    async def last_beats(self, names: Collection[HostName]) -> dict[HostName, LastBeat]:
        if not names:
            return {}
        rows = await self._db.rows(_LAST_BEATS, {"names": list(names)})
        return {
            HostName(row.name): LastBeat(
                session=row.session,
                seen_at=row.seen_at,
                digest="" if row.description == NOTHING_TOLD else sha256(row.description.encode()).hexdigest(),
                metrics=_metrics(row.metrics),
            )
            for row in rows
        }

    async def seen(self, names: Sequence[HostName], now: float) -> None:
        if names:
            await self._db.urgent.run(_SEEN, {"names": list(names), "now": now})

    async def tell(self, metrics: Mapping[HostName, Mapping[str, float]]) -> None:
        if not metrics:
            return
        async with self._db.write() as tx:
            for name, told in metrics.items():
                await tx.run(_TELL, {"named": name, "told": msgspec.json.encode(told).decode()})

    async def set_service(
        self,
        name: HostName,
        *,
        enabled: bool,
        disabled_reason: str | None,
        forced_down: bool | None,
        word: ForcedDown | None = None,
    ) -> Host:
        decided: dict[str, Any] = {"named": name, "enabled": enabled, "disabled_reason": disabled_reason}
        async with self._changing() as tx:
            if forced_down is None:
                return self._found(name, await tx.row(_SWITCH, decided))
            said = word if word and forced_down else ForcedDown()
            decided |= {"forced_down": forced_down, "at": said.at, "by": said.by, "reason": said.reason}
            return self._found(name, await tx.row(_SET_SERVICE, decided))

    async def delete(self, name: HostName) -> None:
        async with self._changing() as tx:
            if not (await tx.run(_DELETE, {"named": name})).rowcount:
                raise NotFound(f"Host {name} could not be found.")
            await tx.run(_FORGET_FAILED, {"named": name})

    async def build_failed(self, order: Order, name: HostName, now: float) -> None:
        async with self._db.write() as tx:
            await pass_fence(tx, order)
            await tx.run(_FORGIVE, {"named": name})
            await tx.run(self._failed, {"run": order.run, "host": name, "at": now})

    def _found(self, name: HostName, row: Row | None) -> Host:
        if row is None:
            raise NotFound(f"Host {name} could not be found.")
        return self._host(row)

    def _host(self, row: Row) -> Host:
        told = dict(row._mapping)
        told["numa"] = _nodes(told["numa"])
        told["metrics"] = _told(told["metrics"])
        return Host(cell=self._cell, **told)
