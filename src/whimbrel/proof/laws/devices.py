"""I8: a PCI device of a host has one owner, a guest that there is."""

from collections.abc import Iterator

from whimbrel.domain.guest import GuestKey
from whimbrel.domain.pci import HeldDevice
from whimbrel.proof.stake import Ground, Stake
from whimbrel.proof.violation import Violation


def count(stake: Stake) -> int:
    return len(stake.devices)


def one_owner(stake: Stake, ground: Ground) -> Iterator[Violation]:
    if stake.record is None and (stake.is_alive or stake.records):
        return  # its record or its entry is lost, and that is said by itself
    slots = {stake.record.slot if stake.record else None, *(run.id for run in stake.runs)}
    for host, one in stake.devices:
        if one.holder is None or one.holder.slot in slots:
            continue
        if stake.runs:  # a move keeps the source's until the verdict
            continue
        sentence = f"device {one.device.address} of {host} is held for a guest of server {stake.id} that is not there"
        yield Violation(law="I8", kind="leaked_device", subject=stake.id, about=f"{host}/{one.holder.slot}", host=host,
                        sentence=sentence, evidence=_evidence(one, one.holder))  # fmt: skip


def _evidence(one: HeldDevice, holder: GuestKey) -> dict[str, str | None]:
    return {"address": one.device.address, "slot": holder.slot, "request": one.request}
