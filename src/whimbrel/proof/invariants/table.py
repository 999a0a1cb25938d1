"""All invariants on one screen: those checked for each server; those of runs, providers, groups and volumes follow."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from whimbrel.proof.evidence import CloudSnapshot, ServerEvidence
from whimbrel.proof.invariants import (
    allocations,
    guests,
    homes,
    images,
    locks,
    pci_devices,
    ports,
    quota,
    volumes,
    zones,
)
from whimbrel.proof.violation import Violation

WORDS: Mapping[str, str] = {
    "I1": "a server has one guest, on the host of its record, and at most one that runs",
    "I2": "a server has exactly one home: directory, record and host agree",
    "I3": "what Placement holds for servers and moves is what they own",
    "I4": "no claim, and no unfinished image, is without an owner",
    "I5": "no provider is over capacity, and its usage is the sum of its claims",
    "I6": "each port has one active binding, on its guest's host once settled",
    "I7": "a volume is attached for the server whose record says so, and its guest has it",
    "I8": "a PCI device has one owner",
    "I9": "zone and group rules hold",
    "I10": "the quota usage is the one that a recount finds",
    "I11": "epochs only rise",
    "I12": "an open run has a conductor or can get one, and nothing else locks a server",
    "I14": "a refusal has a recorded reason",
}
"""I13, that a revert restores exactly, needs the earlier state: tests check it, not a proof of a running cloud."""


@dataclass(frozen=True)
class Invariant:
    """count: the number of facts that it checks for one server."""

    id: str
    judge: Callable[[ServerEvidence, CloudSnapshot], Iterator[Violation]]
    count: Callable[[ServerEvidence], int]


OF_SERVERS = (
    Invariant("I1", guests.one_guest, guests.count),
    Invariant("I2", homes.one_home, homes.count),
    Invariant("I2", locks.stands_alone, locks.count),
    Invariant("I2", locks.listed_as_recorded, locks.count),
    Invariant("I3", allocations.as_owned, allocations.count),
    Invariant("I3", allocations.names_its_owner, lambda seen: len(seen.own)),
    Invariant("I4", allocations.has_an_owner, lambda seen: len(seen.own)),
    Invariant("I4", images.awaited, images.count),
    Invariant("I1", images.kept, images.count),
    Invariant("I6", ports.bound_once, ports.count),
    Invariant("I7", volumes.attached_once, volumes.count),
    Invariant("I8", pci_devices.as_asked, pci_devices.count),
    Invariant("I9", zones.as_its_host, zones.count),
    Invariant("I12", locks.free, locks.count),
    Invariant("I12", locks.awaited, locks.count),
    Invariant("I10", quota.counts_once, quota.count),
)

AT_EVERY_INSTANT = (
    guests.runs_once,
    guests.of_a_step,
    homes.one_home,
    locks.stands_alone,
    locks.free,
    locks.awaited,
    allocations.guests_are_claimed,
    allocations.owned,
    allocations.has_an_owner,
    ports.bound,
    volumes.used_as_recorded,
    pci_devices.one_owner,
    quota.counts_once,
)
"""The subset that holds at every instant for an observer of the whole cloud, with hosts down and messages delayed."""


def judged(seen: ServerEvidence, snapshot: CloudSnapshot) -> list[Violation]:
    """Return all violations of one server, or of an id under which something is held."""
    return [violation for invariant in OF_SERVERS for violation in invariant.judge(seen, snapshot)]
