"""The proof of the cloud: every invariant, how many facts were checked, and the violations."""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType


class InvariantCount(msgspec.Struct, kw_only=True, rename={"invariant": "law"}):
    invariant: str
    words: str
    facts: int
    violations: int


class Violation(msgspec.Struct, kw_only=True, rename={"invariant": "law"}):
    invariant: str
    kind: str
    subject: str
    sentence: str
    about: str = ""
    host: str | None = None
    evidence: dict[str, Any] = {}


class Proof(msgspec.Struct, kw_only=True, rename={"not_checked": "unseen", "invariants": "laws"}):
    """not_checked: what could not be checked; warnings: problems that violate no invariant. Both in sentences."""

    holds: bool
    began_at: float
    took_s: float
    servers: int
    hosts: int
    invariants: list[InvariantCount]
    violations: list[Violation]
    not_checked: list[str]
    warnings: list[str] = []

    def faults(self) -> list[str]:
        """Return one sentence for each problem."""
        return [each.sentence for each in self.violations] + self.not_checked


class Progress(msgspec.Struct, kw_only=True):
    """total: None if it is not known in advance."""

    stage: str
    done: int
    total: int | None


class ProofAnswer(msgspec.Struct):
    proof: Proof


class ProofLine(msgspec.Struct, kw_only=True):
    """One line of a proof with progress: exactly one of these."""

    progress: Progress | UnsetType = UNSET
    proof: Proof | UnsetType = UNSET
    fault: Any = UNSET
