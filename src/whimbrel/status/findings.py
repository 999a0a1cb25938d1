"""Findings: what is wrong in a cloud, derived from what its stores say. docs/alerts.yaml has the same thresholds."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from whimbrel.domain.host import Host
from whimbrel.domain.ids import CellName
from whimbrel.domain.maintenance_plan import Maintenance
from whimbrel.domain.nouns import counted
from whimbrel.domain.run import Run
from whimbrel.moves.facts import MoveFacts
from whimbrel.ports.stores.journal import Tally
from whimbrel.ports.stores.processes import LEASE_S, ProcessRecord
from whimbrel.ports.stores.restores import CloudState
from whimbrel.saga.engine import DEBTS

Severity = Literal["error", "warning"]
"""error: something does not work, or soon will not. warning: an administrator should look at it."""

FAILING_S = 60.0
"""For how long a run has failed at a step before it is named."""
WORKING_S = 900.0
"""The same for a run whose step has not failed and does not end."""
OVERDUE_S = 30.0
PARKED_S = 3 * 86400.0
UNPROVED_S = 2 * 86400.0
EXPIRES_S = 30 * 86400.0
LONG_STEPS = ("transfer", "await_turn")
"""Steps that last as long as a guest's memory, or another run, needs."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong. since: seconds since 1970, if it is known. command: what shows more, or corrects it."""

    severity: Severity
    kind: str
    subject: str
    text: str
    command: str
    since: float | None = None


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate that the answering process uses. expires_at: seconds since 1970."""

    file: str
    name: str
    expires_at: float


def of_hold(state: CloudState) -> Iterator[Finding]:
    if hold := state.hold:
        yield Finding(
            severity="error",
            kind="hold",
            subject="all moves",
            text=f"all moves and operations are held: {hold.because}",
            command="whimbrel restore",
            since=hold.at,
        )


def of_processes(processes: Sequence[ProcessRecord], now: float) -> Iterator[Finding]:
    """processes: the registered ones, with those that died in the last hour."""
    live = [process for process in processes if process.is_live(now, LEASE_S)]
    if not any(process.conducts for process in live):
        yield Finding(
            severity="error",
            kind="process",
            subject="conductor",
            text="no conductor is alive: nothing moves",
            command="whimbrel conductor",
        )
    going = {(process.role, process.host, process.name) for process in live}
    for process in processes:
        if process not in live and (process.role, process.host, process.name) not in going:
            yield Finding(
                severity="warning",
                kind="process",
                subject=process.name or process.role,
                text=f"process {process.pid} ({process.role}) of host {process.host} died or is cut off",
                command="whimbrel processes",
                since=process.seen_at,
            )
    releases = sorted({process.release for process in live})
    if len(releases) > 1:
        yield Finding(
            severity="warning",
            kind="process",
            subject="releases",
            text=f"processes of the releases {' and '.join(releases)} run beside each other: end the upgrade",
            command="whimbrel upgrade check",
        )


def of_services(troubles: Mapping[str, str]) -> Iterator[Finding]:
    """troubles: why Placement, or a service that servers use, does not answer."""
    for name, trouble in sorted(troubles.items()):
        text = f"the {name} service does not answer: {trouble}"
        yield Finding(severity="error", kind="service", subject=name, text=text, command="whimbrel check")


def of_clocks(sentences: Iterable[str]) -> Iterator[Finding]:
    for sentence in sentences:
        yield Finding(severity="warning", kind="clock", subject="clock", text=sentence, command="chronyc tracking")


def of_cells(problems: Mapping[CellName, str]) -> Iterator[Finding]:
    """problems: why the database of a cell does not answer."""
    for name, problem in sorted(problems.items()):
        yield Finding(
            severity="error",
            kind="cell",
            subject=name,
            text=f"the database of cell {name} does not answer: {problem}",
            command="whimbrel cell list",
        )


def of_hosts(hosts: Iterable[Host], now: float) -> Iterator[Finding]:
    for host in sorted(hosts, key=lambda host: (host.cell, host.name)):
        if host.forced_down:
            by = f" by {host.forced_down_by}" if host.forced_down_by else ""
            reason = f": {host.forced_down_reason}" if host.forced_down_reason else ""
            text, since = f"host {host.name} of cell {host.cell} is forced down{by}{reason}", host.forced_down_at
            severity: Severity = "warning"
        elif not host.is_up(now):
            text, since = f"host {host.name} of cell {host.cell} sends no heartbeat", host.seen_at or None
            severity = "error"
        else:
            continue
        command = f"whimbrel host show {host.name}"
        yield Finding(severity=severity, kind="host", subject=host.name, text=text, command=command, since=since)


def of_bus(problem: str | None) -> Iterator[Finding]:
    if problem:
        yield Finding(
            severity="error",
            kind="bus",
            subject="bus",
            text=f"the API that answers has no connection to the bus: {problem}",
            command="whimbrel bus show",
        )


def of_runs(runs: Iterable[Run]) -> Iterator[Finding]:
    """runs: those that do not go on, see Journal.stalled."""
    for run in runs:
        if run.at in LONG_STEPS and not run.tries and run.problem is None:
            continue
        server = run.facts.name if isinstance(run.facts, MoveFacts) and run.facts.name else run.subject
        bug = run.problem and f"stopped by a bug: {run.problem.strip().splitlines()[-1]}"
        why = bug or run.message
        stands = f"stands at {run.at}{' on its way back' * (run.way == 'back')}"
        text = f"{run.saga} of server {server} {'waits to be undone' if run.at == DEBTS else stands}"
        owed = f"; it still has to undo {', '.join(run.debts)}" if run.debts else ""
        yield Finding(
            severity="error" if run.problem else "warning",
            kind="run",
            subject=run.id,
            text=f"{text}{f': {why}' if why else ''}{owed}",
            command=f"whimbrel move show {run.id}",
            since=run.since,
        )


def of_tally(tally: Tally, now: float, state: CloudState) -> Iterator[Finding]:
    """state: runs that are held are due and taken by nobody."""
    open_ = [group for group in tally.open if group.state == "open"]
    due = min((group.due for group in open_), default=now)
    if now - due > OVERDUE_S and not state.hold:
        text = "a run is due, and no conductor takes it"
        yield Finding(severity="error", kind="run", subject="runs", text=text, command="whimbrel processes", since=due)
    parked = [group for group in tally.open if group.state == "parked" and group.parked is not None]
    oldest = min((group.parked or now for group in parked), default=now)
    if now - oldest > PARKED_S:
        count = sum(group.runs for group in parked)
        text = f"{count} {'moves wait' if count > 1 else 'move waits'} to be confirmed or reverted"
        command = "whimbrel move list --open"
        yield Finding(severity="warning", kind="run", subject="parked", text=text, command=command, since=oldest)


def of_debts(tally: Tally, now: float) -> Iterator[Finding]:
    """Yield a warning for undos that have been outstanding for some time; the runs are named by `of_runs`."""
    if not tally.debts or tally.debts_since is None or now - tally.debts_since < FAILING_S:
        return
    undos = ", ".join(f"{step} ({runs})" for step, runs in sorted(tally.debts.items()))
    text = f"undos are still to be done: {undos}"
    command = "whimbrel move list --open --kind all"
    yield Finding(severity="warning", kind="debt", subject="debts", text=text, command=command, since=tally.debts_since)


def of_maintenances(paused: Iterable[Maintenance]) -> Iterator[Finding]:
    for one in paused:
        yield Finding(
            severity="warning",
            kind="maintenance",
            subject=one.name,
            text=(
                f"maintenance {one.name} is paused{', its hosts stay disabled' if one.hosts else ''}:"
                f" {one.message or 'by an operator'}"
            ),
            command=f"whimbrel maintenance show {one.id}",
        )


def of_proof(tally: Tally, now: float, cloud_since: float) -> Iterator[Finding]:
    """cloud_since: since when the cloud exists; a new one need not have been proved."""
    proof, command = tally.proof, "whimbrel prove"
    if proof is None:
        if now - cloud_since > UNPROVED_S:
            text = "the accounting of this cloud has never been checked"
            yield Finding(severity="warning", kind="proof", subject="proof", text=text, command=command)
        return
    if proof.violations:
        text = f"the last proof found {counted(proof.violations, 'violation')}"
        yield Finding(severity="error", kind="proof", subject="proof", text=text, command=command, since=proof.at)
    if proof.unseen:
        text = f"the last proof did not see everything: {proof.unseen} of its hosts and cells did not answer"
        yield Finding(severity="warning", kind="proof", subject="proof", text=text, command=command, since=proof.at)
    if now - proof.at > UNPROVED_S:
        text = "the accounting was last checked long ago"
        yield Finding(severity="warning", kind="proof", subject="proof", text=text, command=command, since=proof.at)


def of_certificates(certificates: Iterable[Certificate], now: float) -> Iterator[Finding]:
    for each in sorted(certificates, key=lambda certificate: certificate.expires_at):
        left = each.expires_at - now
        if left > EXPIRES_S:
            continue
        text = f"expires in {left / 86400:.0f} days" if left > 0 else "has expired"
        yield Finding(
            severity="warning" if left > 0 else "error",
            kind="certificate",
            subject=each.name,
            text=f"the certificate {each.name} in {each.file} {text}",
            command="whimbrel pki renew",
        )
