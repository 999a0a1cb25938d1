"""I6: each port has one active binding, on its guest's host once settled, and is of the server that its record says."""

from collections.abc import Iterator
from typing import Any

from whimbrel.ports.network import Port
from whimbrel.proof.stake import Ground, Stake
from whimbrel.proof.violation import Violation


def count(stake: Stake) -> int:
    nics = stake.record.nics if stake.record else ()
    return len({*(port.id for port in stake.ports), *(nic.port_id for nic in nics)})


def bound_once(stake: Stake, ground: Ground) -> Iterator[Violation]:
    if stake.is_nobody:
        yield from _of_nobody(stake)
        return
    if stake.record is None:
        return
    there = {port.id: port for port in stake.ports}
    nics = {nic.port_id for nic in stake.record.nics}
    for port_id in nics & there.keys():
        yield from _bound(stake, there[port_id])
    if stake.is_settled:
        yield from _missing(stake, nics - there.keys())
        for port_id in there.keys() - nics:
            sentence = f"port {port_id} says that it is of server {stake.id}, whose record does not name it"
            yield _violation(stake, "stray_port", there[port_id], sentence)


def _bound(stake: Stake, port: Port) -> Iterator[Violation]:
    home = stake.home
    if not port.host and not (home is None and stake.is_settled):
        yield _violation(stake, "unbound_port", port, f"port {port.id} of server {stake.id} is bound to no host")
    elif home and port.host != home.host:
        yield _violation(stake, "port_elsewhere", port, f"port {port.id} of server {stake.id} is bound to {port.host},"
                         f" and its server is on {home.host}")  # fmt: skip
    if home:
        for binding in stake.bindings.get(port.id, ()):
            if not binding.is_active and binding.host != home.host:
                sentence = f"port {port.id} of server {stake.id} is still bound to {binding.host}, inactively"
                yield _violation(stake, "stray_binding", port, sentence, binding.host)


def _missing(stake: Stake, missing: set[str]) -> Iterator[Violation]:
    for port_id in sorted(missing):
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
