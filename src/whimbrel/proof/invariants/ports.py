"""I6: each port has one active binding, on its guest's host once settled, and is of the server that its record says."""

from collections.abc import Iterator, Sequence
from typing import Any

from whimbrel.ports.services.network import Port
from whimbrel.proof.evidence import Ground, Stake
from whimbrel.proof.violation import Violation


def count(stake: Stake) -> int:
    nics = stake.record.nics if stake.record else ()
    return len({*(port.id for port in stake.ports), *(nic.port_id for nic in nics)})


def bound_once(stake: Stake, ground: Ground) -> Iterator[Violation]:
    if stake.is_nobody:
        yield from _of_nobody(stake)
        return
    yield from _not_served(stake, stake.named_ports)
    if stake.is_still:
        yield from _missing(stake)
        yield from _left_over(stake)


def bound(stake: Stake, ground: Ground) -> Iterator[Violation]:
    """See that the ports that the record names serve its guest: at every instant, whatever comes too late.

    But for one thing: what an earlier way back asked may arrive while the next move waits for its verdict (ADR 7). The
    next slow round gives the port back: at rest, and by a proof, nothing is excused (`bound_once`).
    """
    yield from _not_served(stake, [port for port in stake.named_ports if not _is_taken_back(port, stake)])


def served(stake: Stake, ground: Ground) -> Iterator[Violation]:
    """See that they do so whatever came too late, some time after it: what else is left goes after the verdict."""
    yield from _not_served(stake, stake.named_ports)


def _is_taken_back(port: Port, stake: Stake) -> bool:
    """Tell whether it serves the host to which a move that waits may be turned back."""
    return stake.way_back is not None and port.host == stake.way_back[0]


def _not_served(stake: Stake, ports: Sequence[Port]) -> Iterator[Violation]:
    home = stake.home
    for port in ports:
        if not port.host and not (home is None and stake.is_settled):
            yield _violation(stake, "unbound_port", port, f"port {port.id} of server {stake.id} is bound to no host")
        elif home and port.host != home.host:
            yield _violation(stake, "port_elsewhere", port, f"port {port.id} of server {stake.id} is bound to"
                             f" {port.host}, and its server is on {home.host}")  # fmt: skip


def _left_over(stake: Stake) -> Iterator[Violation]:
    """Say what came too late to the network service, or was left there."""
    named = stake.named_ports
    due = {stake.home.host if stake.home else None, stake.way_back[0] if stake.way_back else None}
    for port in named if stake.home else ():
        for binding in stake.bindings.get(port.id, ()):
            if not binding.is_active and binding.host not in due:
                sentence = f"port {port.id} of server {stake.id} is still bound to {binding.host}, inactively"
                yield _violation(stake, "stray_binding", port, sentence, binding.host)
    for port in stake.ports:
        if port not in named:
            sentence = f"port {port.id} says that it is of server {stake.id}, whose record does not name it"
            yield _violation(stake, "stray_port", port, sentence)


def _missing(stake: Stake) -> Iterator[Violation]:
    for port_id in sorted(stake.nics - {port.id for port in stake.ports}):
        sentence = f"port {port_id}, which the record of server {stake.id} names, is not there or not its own"
        yield Violation(law="I6", kind="lost_port", subject=stake.id, about=port_id, sentence=sentence)


def _of_nobody(stake: Stake) -> Iterator[Violation]:
    """Only of servers that were ours: the network service may serve others too."""
    for port in stake.ports if stake.is_known else ():
        sentence = f"port {port.id} says that it is of server {stake.id}, which is no more"
        yield _violation(stake, "port_of_nobody", port, sentence)


def _violation(stake: Stake, kind: str, port: Port, sentence: str, host: str = "") -> Violation:
    evidence: dict[str, Any] = {
        "port": {"device_id": port.device_id, "device_owner": port.device_owner, "host": port.host},
        "bindings": [
            {"host": each.host, "is_active": each.is_active} for each in stake.bindings.get(port.id, ())
        ],
    }  # fmt: skip
    about = f"{port.id}/{host}" if host else port.id
    return Violation(law="I6", kind=kind, subject=stake.id, about=about, sentence=sentence, evidence=evidence)
