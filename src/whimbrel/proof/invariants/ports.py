"""I6: each port has one active binding, on its guest's host once settled, and belongs to the server that names it."""

from collections.abc import Iterator, Sequence
from typing import Any

from whimbrel.ports.services.network import Port
from whimbrel.proof.evidence import CloudSnapshot, ServerEvidence
from whimbrel.proof.violation import Kind, Violation

UNBINDING = ("shelve", "shelve_offload", "unshelve", "delete")
"""The runs during which a server's ports may be bound to no host."""


def count(seen: ServerEvidence) -> int:
    nics = seen.record.nics if seen.record else ()
    return len({*(port.id for port in seen.ports), *(nic.port_id for nic in nics)})


def bound_once(seen: ServerEvidence, snapshot: CloudSnapshot) -> Iterator[Violation]:
    if seen.is_unknown:
        yield from _of_deleted_servers(seen)
        return
    yield from _not_served(seen, seen.named_ports)
    if seen.is_still:
        yield from _missing(seen)
        yield from _left_over(seen)


def bound(seen: ServerEvidence, snapshot: CloudSnapshot) -> Iterator[Violation]:
    """Check that the ports that the record names are bound for its guest, at every instant.

    One exception: a stale request of an earlier rollback may arrive while the next move waits for its verdict (ADR
    7). The
    next slow round rebinds the port; at rest, and in a proof, there are no exceptions (`bound_once`).
    """
    yield from _not_served(seen, [port for port in seen.named_ports if not _is_taken_back(port, seen)])


def served(seen: ServerEvidence, snapshot: CloudSnapshot) -> Iterator[Violation]:
    """Check the same without the exception, some time after stale requests; other leftovers go after the verdict."""
    yield from _not_served(seen, seen.named_ports)


def _is_taken_back(port: Port, seen: ServerEvidence) -> bool:
    """Check whether the port is bound on the host to which the parked move may roll back."""
    return seen.way_back is not None and port.host == seen.way_back[0]


def _not_served(seen: ServerEvidence, ports: Sequence[Port]) -> Iterator[Violation]:
    home = seen.home
    for port in ports:
        if not port.host and not (home is None and seen.is_settled) and not _may_be_unbound(seen):
            yield _violation(seen, Kind.UNBOUND_PORT, port, f"port {port.id} of server {seen.id} is bound to no host")
        elif home and port.host != home.host:
            yield _violation(seen, Kind.PORT_ELSEWHERE, port, f"port {port.id} of server {seen.id} is bound to"
                             f" {port.host}, and its server is on {home.host}")  # fmt: skip
        elif home and not port.is_connected:
            sentence = (
                f"port {port.id} of server {seen.id} is bound to {port.host} ({port.vif_type}): nothing connects it"
            )
            yield _violation(seen, Kind.UNBOUND_PORT, port, sentence)


def _may_be_unbound(seen: ServerEvidence) -> bool:
    """Check whether its ports are being unbound, or bound again, or it is offloaded, whatever else changes it."""
    is_offloaded = seen.record is not None and seen.record.vm_state == "shelved_offloaded"
    return is_offloaded or any(run.saga in UNBINDING for run in seen.runs)


def _left_over(seen: ServerEvidence) -> Iterator[Violation]:
    """Report bindings and ports that stale requests or failed runs left in the network service."""
    named = seen.named_ports
    due = {seen.home.host if seen.home else None, seen.way_back[0] if seen.way_back else None}
    is_offloaded = seen.is_settled and seen.record is not None and seen.record.host is None
    for port in named if is_offloaded else ():
        if port.host:
            yield _violation(seen, Kind.PORT_ELSEWHERE, port, f"port {port.id} of server {seen.id} is bound to"
                             f" {port.host}, and its server is on no host")  # fmt: skip
    for port in named if seen.home or is_offloaded else ():
        for binding in seen.bindings.get(port.id, ()):
            if not binding.is_active and binding.host not in due:
                sentence = f"port {port.id} of server {seen.id} is still bound to {binding.host}, inactively"
                yield _violation(seen, Kind.ORPHAN_BINDING, port, sentence, binding.host)
    for port in seen.ports:
        if port not in named:
            sentence = f"port {port.id} names server {seen.id}, whose record does not name it"
            yield _violation(seen, Kind.ORPHAN_PORT, port, sentence)


def _missing(seen: ServerEvidence) -> Iterator[Violation]:
    for port_id in sorted(seen.nics - {port.id for port in seen.ports}):
        sentence = f"port {port_id}, which the record of server {seen.id} names, is not there or not its own"
        yield Violation(invariant="I6", kind=Kind.LOST_PORT, subject=seen.id, about=port_id, sentence=sentence)


def _of_deleted_servers(seen: ServerEvidence) -> Iterator[Violation]:
    """Report ports of deleted servers, but only of known ones: the network service may have other users."""
    for port in seen.ports if seen.is_known else ():
        sentence = f"port {port.id} names server {seen.id}, which does not exist any more"
        yield _violation(seen, Kind.PORT_OF_NOBODY, port, sentence)


def _violation(seen: ServerEvidence, kind: Kind, port: Port, sentence: str, host: str = "") -> Violation:
    evidence: dict[str, Any] = {
        "port": {"device_id": port.device_id, "device_owner": port.device_owner, "host": port.host},
        "bindings": [
            {"host": each.host, "is_active": each.is_active} for each in seen.bindings.get(port.id, ())
        ],
    }  # fmt: skip
    about = f"{port.id}/{host}" if host else port.id
    return Violation(invariant="I6", kind=kind, subject=seen.id, about=about, sentence=sentence, evidence=evidence)
