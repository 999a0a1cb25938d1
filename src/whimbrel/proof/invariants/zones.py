"""I9: a server's availability zone is that of its host, and Placement has the same zone."""

from collections.abc import Iterator

from whimbrel.domain.ids import HostName
from whimbrel.ports.placement.placement import HostZone
from whimbrel.proof.evidence import CloudSnapshot, ServerEvidence
from whimbrel.proof.violation import Kind, Violation


def count(seen: ServerEvidence) -> int:
    return int(seen.record is not None and seen.record.host is not None)


def as_its_host(seen: ServerEvidence, snapshot: CloudSnapshot) -> Iterator[Violation]:
    record = seen.record
    if record is None or record.host is None or record.host not in snapshot.zones:
        return
    is_in, meant = snapshot.zones[record.host], record.zone or snapshot.default_zone
    if is_in != meant:
        zone, its_zone = snapshot.zone_name(meant), snapshot.zone_name(is_in)
        yield Violation(
            invariant="I9",
            kind=Kind.ZONE_DIFFERS,
            subject=seen.id,
            sentence=f"server {seen.id} is in zone {zone} by its record, its host {record.host} is in zone {its_zone}",
            about=record.host,
            evidence={"zone": record.zone, "pin": record.spec.zone_pin, "host": record.host, "zone_of_host": is_in},
        )


def zone_violation(told: HostZone, host: HostName, zone: str, snapshot: CloudSnapshot) -> Violation:
    stated = f"in zone {snapshot.zone_name(told.zone)}" if told.zone else "in no zone of an aggregate"
    name = snapshot.zone_name(zone)
    return Violation(
        invariant="I9",
        kind=Kind.ZONE_MISTOLD,
        subject=told.root,
        about=told.zone,
        host=host,
        sentence=f"Placement has host {host} {stated}, and it is in zone {name}",
        evidence={"told": told.zone, "zone": zone, "name": name},
    )
