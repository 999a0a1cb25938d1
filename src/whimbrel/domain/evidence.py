"""Evidence that a guest on a dead host cannot run: without it no evacuation goes on."""

from typing import Literal

import msgspec

EvidenceKind = Literal["guest_gone", "power_off", "self_fenced", "administrator"]
"""guest_gone: the source's agent says that the guest is gone or stopped. power_off: a fence device confirmed that the
host is off. self_fenced: the host stopped its guests when it lost the cloud. administrator: a person said so.
"""


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """at: seconds since 1970. origin: who or what said so. detail: the sentence that came with it."""

    kind: EvidenceKind
    at: float
    origin: str
    detail: str = ""
