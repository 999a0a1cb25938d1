"""What a repair knows: what was said that it would do, what of that is still to be done, and the claim."""

from collections.abc import Callable

from whimbrel.domain.ids import HostName
from whimbrel.servers.errand import ErrandFacts
from whimbrel.servers.port_claims import Claim
from whimbrel.servers.repair_plan import Kind, Mend


class RepairFacts(ErrandFacts, frozen=True, kw_only=True, omit_defaults=True):
    """cell, host: None: it is no server that lives somewhere. hosts: where anything of a guest was seen, or may be."""

    agreed: tuple[Mend, ...]
    hosts: tuple[HostName, ...]
    mends: tuple[Mend, ...] = ()
    held: Claim | None = None
    due: Claim | None = None

    def of_kind(self, kind: Kind) -> list[Mend]:
        return [mend for mend in self.mends if mend.kind == kind]


def does(kind: Kind) -> Callable[[RepairFacts], bool]:
    """Tell of facts whether something of this kind is to be done."""
    return lambda facts: bool(facts.of_kind(kind))


def may_change_claim(facts: RepairFacts) -> bool:
    return facts.due is not None and facts.held != facts.due


def has_record(facts: RepairFacts) -> bool:
    return facts.cell is not None
