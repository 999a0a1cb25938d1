"""One thing that a repair does, and what is said about a violation: such things, or why nothing is done."""

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from whimbrel.domain.ids import CellName, HostName, Slot
from whimbrel.proof.evidence import CloudSnapshot, ServerEvidence
from whimbrel.proof.violation import Violation

Kind = Literal[
    "adopt_record", "erase_copy", "adopt_guest", "destroy_guest", "claim_due", "release_claim", "bind_port",
    "let_go_binding", "let_go_port", "detach", "release_devices", "book", "delete_image", "unlock", "stand_alone",
    "recount", "write_columns", "tell_zone", "enter_project",
    "name_owner", "give_lock", "record_project", "settle_record", "erase_entry",
]  # fmt: skip


class Mend(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is done; columns are written with the record by whoever locks it.

    thing: the id of the port, attachment, image, run or project.
    """

    kind: Kind
    sentence: str
    thing: str = ""
    cell: CellName | None = None
    host: HostName | None = None
    slot: Slot | None = None


Said = Sequence[Mend] | str
Decide = Callable[[ServerEvidence, CloudSnapshot, Violation], Said]
