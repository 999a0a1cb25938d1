"""I9: a server is in the availability zone in which its host is: nobody brought the host elsewhere under it."""

from collections.abc import Iterator

from whimbrel.proof.stake import Ground, Stake
from whimbrel.proof.violation import Violation


def count(stake: Stake) -> int:
    return int(stake.record is not None and stake.record.host is not None)


def as_its_host(stake: Stake, ground: Ground) -> Iterator[Violation]:
    record = stake.record
    if record is None or record.host is None or record.host not in ground.zones:
        return
    is_in, meant = ground.zones[record.host], record.zone or ground.default_zone
    if is_in != meant:
        yield Violation(
            law="I9",
            kind="zone_differs",
            subject=stake.id,
            sentence=f"server {stake.id} is in zone {meant} by its record, and its host {record.host} in zone {is_in}",
            about=record.host,
            evidence={"zone": record.zone, "pin": record.spec.zone_pin, "host": record.host, "zone_of_host": is_in},
        )
