"""Repairs: violations of invariants, and the actions that repair them."""

import msgspec

from whimbrel.api.views.proof import Violation


class RepairAction(msgspec.Struct, kw_only=True):
    kind: str
    sentence: str


class RepairFinding(msgspec.Struct, kw_only=True):
    """The violations of one subject. left: what is not repaired, and why. mends: the name of `actions` in 0.1."""

    subject: str
    violations: list[Violation]
    actions: list[RepairAction] = []
    mends: list[RepairAction] = []
    left: list[str]

    def __post_init__(self) -> None:
        self.actions = self.mends = self.actions or self.mends


class Repairs(msgspec.Struct, kw_only=True):
    repairs: list[RepairFinding]
    holds: bool
    unseen: list[str]


class Repair(RepairFinding, kw_only=True):
    move_id: str
    unseen: list[str] = []


class RepairAnswer(msgspec.Struct):
    repair: Repair
