"""A violation: one law that does not hold of one thing, with what was read of it."""

from typing import Any

import msgspec

from whimbrel.domain.ids import HostName


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """law: its number in proof/invariants/table.py. kind: what is so, one word for programs. subject: whose it is.

    subject is a server's id, or the id under which something is held that is no server's; a provider's, a group's or a
    run's in the laws about these. about: which of the subject's things it is.
    """

    law: str
    kind: str
    subject: str
    sentence: str
    about: str = ""
    host: HostName | None = None
    evidence: dict[str, Any] = {}

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Give what is the same as long as it is the same thing that is wrong."""
        return self.law, self.kind, self.subject, self.about

    @property
    def order(self) -> tuple[int, tuple[str, str, str, str]]:
        """Give where it stands in a list: by the numbers of the laws."""
        return int(self.law.removeprefix("I")), self.key
