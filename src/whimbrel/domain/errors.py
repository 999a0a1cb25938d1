"""Errors, named by what the caller does next. Anything that is none of these is a bug of ours."""


class WorldError(Exception):
    """The world said something other than yes; `reason` is a sentence for people."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Refused(WorldError):
    """No, and asking again will not change it. evidence: what a decision was taken by, to be kept beside its run."""

    def __init__(self, reason: str, evidence: bytes | None = None) -> None:
        super().__init__(reason)
        self.evidence = evidence


class OverQuota(Refused):
    """No: the project's quota does not allow it."""


class NotFound(WorldError):
    """It is not there."""


class Conflict(WorldError):
    """Somebody was faster: look again before you repeat."""


class Superseded(Conflict):
    """A newer epoch of the same run has been seen: stop, the run is somebody else's now."""


class LockLost(Superseded):
    """The run does not hold the lock of its server: nothing more may be done for it."""


class Behind(Superseded):
    """The journal knows less of the run than was carried out for it: its database was restored from an older copy."""


class Unavailable(WorldError):
    """No answer: it may have happened, or not. Look, or ask again; never assume."""


class Invalid(Refused):
    """No: the request itself is wrong; `reason` names the offending part."""


class Forbidden(Refused):
    """No: this caller may not."""


class WrongState(Conflict):
    """Not now: the server is in a state that does not allow it."""
