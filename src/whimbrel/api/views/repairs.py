"""Repairs: what violates the invariants, and what is done about it."""

import msgspec

from whimbrel.api.views.proof import Violation


class RepairAction(msgspec.Struct, kw_only=True):
    kind: str
    sentence: str


class RepairFinding(msgspec.Struct, kw_only=True):
    """The violations of one subject. left: what is not repaired, and why. mends: what 0.1 calls the actions."""

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
