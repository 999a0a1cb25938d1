"""Reads what is wrong in a cloud, and how much of everything there is.

Invariant: each store has a time limit; what does not answer is a finding itself and keeps nothing else from being read.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

import msgspec

from whimbrel.domain.errors import Unavailable, WorldError
from whimbrel.domain.host import Host
from whimbrel.domain.ids import CellName, ConsumerId
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.journal import LastProof
from whimbrel.ports.stores.processes import LEASE_S, ProcessRecord
from whimbrel.proof.clock_skew import clock_warnings
from whimbrel.status import findings
from whimbrel.status.findings import Certificate, Finding

TIMEOUT_S = 5.0
MOST_RUNS = 50
"""How many runs that do not go on are named."""

Value = TypeVar("Value")


class HostCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Hosts of one cell. disabled: up, but they get no servers."""

    up: int = 0
    disabled: int = 0
    down: int = 0
    forced_down: int = 0


class CloudStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A cloud as of `at`, seconds since 1970. hosts: None for a cell that does not answer.

    debts: undo -> runs that still have to do it. services: whether Placement and the others answer. bus: see
    BusAccesses.problem; None: there is none, "": connected.
    """

    at: float
    findings: Sequence[Finding]
    processes: Mapping[str, int]
    hosts: Mapping[CellName, HostCounts | None]
    runs_open: int
    runs_parked: int
    debts: Mapping[str, int]
    services: Mapping[str, bool]
    bus: str | None
    certificates: Sequence[Certificate]
    proof: LastProof | None
    proofs: Sequence[LastProof] = ()  # the last ones, the newest first

    @property
    def is_fine(self) -> bool:
        """Check whether there is no error; warnings may remain."""
        return not any(finding.severity == "error" for finding in self.findings)


async def read_status(cloud: Cloud, bus_problem: str | None, certificates: Sequence[Certificate]) -> CloudStatus:
    """Read a cloud's status. bus_problem: see BusAccesses.problem. Raises: Unavailable: the global database is down."""
    now = cloud.clock.now()
    tally, state, processes, clocks, infos, stalled = await asyncio.gather(
        _limited(cloud.journal.tally(now)),
        _limited(cloud.restores.state()),
        _limited(cloud.processes.all()),
        _limited(clock_warnings(cloud)),
        _limited(cloud.cell_infos.all()),
        _limited(cloud.journal.stalled(now - findings.FAILING_S, now - findings.WORKING_S, MOST_RUNS)),
    )
    paused = await _limited(cloud.maintenances.find(("paused",)))
    proofs = await _limited(cloud.journal.proofs())
    names = [info.name for info in infos]
    asked = _harmless_requests(cloud)
    answers, service_answers = await asyncio.gather(
        asyncio.gather(*(_hosts(cloud, name) for name in names)), asyncio.gather(*map(_trouble, asked.values()))
    )
    services = dict(zip(asked, service_answers, strict=True))
    hosts = {name: answer for name, answer in zip(names, answers, strict=True) if not isinstance(answer, str)}
    problems = {name: answer for name, answer in zip(names, answers, strict=True) if isinstance(answer, str)}
    cloud_since = min((info.created_at for info in infos), default=now)
    found = [
        *findings.of_hold(state),
        *findings.of_cells(problems),
        *findings.of_processes(processes, now),
        *findings.of_services({name: trouble for name, trouble in services.items() if trouble is not None}),
        *findings.of_bus(bus_problem),
        *findings.of_hosts((host for each in hosts.values() for host in each), now),
        *findings.of_tally(tally, now, state),
        *findings.of_debts(tally, now),
        *findings.of_runs(stalled),
        *findings.of_maintenances(paused),
        *findings.of_proof(tally, now, cloud_since),
        *findings.of_certificates(certificates, now),
        *findings.of_clocks(clocks),
    ]
    return CloudStatus(
        at=now,
        findings=sorted(found, key=lambda finding: finding.severity),  # errors come first, else in this order
        processes=_roles(processes, now),
        hosts={name: _counted(hosts[name], now) if name in hosts else None for name in names},
        runs_open=sum(group.runs for group in tally.open if group.state == "open"),
        runs_parked=sum(group.runs for group in tally.open if group.state == "parked"),
        debts=tally.debts,
        services={name: trouble is None for name, trouble in services.items()},
        bus=bus_problem,
        certificates=sorted(certificates, key=lambda each: each.expires_at),
        proof=tally.proof,
        proofs=proofs,
    )


def _harmless_requests(cloud: Cloud) -> Mapping[str, Awaitable[object]]:
    """Return service -> a read of an object that does not exist."""
    nothing = str(UUID(int=0))
    return {
        "placement": cloud.placement.allocations([ConsumerId(nothing)]),
        "image": cloud.images.show(nothing),
        "network": cloud.network.port(nothing),
        "volume": cloud.volumes.volume(nothing),
    }


async def _trouble(reading: Awaitable[object]) -> str | None:
    """Return why a service does not answer, None: it does, whatever it says."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await reading
    except TimeoutError:
        return f"no answer within {TIMEOUT_S:.0f} s"
    except Unavailable as trouble:
        return trouble.reason
    except WorldError:
        pass
    return None


async def _limited(reading: Awaitable[Value]) -> Value:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await reading
    except TimeoutError:
        raise Unavailable(f"the global database does not answer within {TIMEOUT_S:.0f} s") from None


async def _hosts(cloud: Cloud, name: CellName) -> Sequence[Host] | str:
    """Return the hosts of a cell, or why it does not answer."""
    if name not in cloud.cells:
        return "it is not open yet"
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await cloud.cells[name].hosts.all()
    except TimeoutError:
        return f"no answer within {TIMEOUT_S:.0f} s"
    except Unavailable as trouble:
        return trouble.reason


def _roles(processes: Sequence[ProcessRecord], now: float) -> Mapping[str, int]:
    """Return role -> live processes."""
    return dict(sorted(Counter(process.role for process in processes if process.is_live(now, LEASE_S)).items()))


def _counted(hosts: Sequence[Host], now: float) -> HostCounts:
    states = Counter(host.state(now) for host in hosts)
    return HostCounts(**states)
