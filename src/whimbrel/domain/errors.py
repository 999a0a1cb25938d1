"""Errors, classified by what the caller does next. Any other exception is a bug."""


class WorldError(Exception):
    """An answer other than success. `reason` is a sentence for users."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Refused(WorldError):
    """Refused; a retry does not change it. evidence: the basis of a decision, kept beside its run."""

    def __init__(self, reason: str, evidence: bytes | None = None) -> None:
        super().__init__(reason)
        self.evidence = evidence


class OverQuota(Refused):
    """The project's quota does not allow it."""


class OverRate(Refused):
    """As many have begun in the last minute as may begin in one."""


class NoGuestAgent(Refused):
    """No agent answers in the guest."""


class TurnedBack(Refused):
    """A step found out that its run is to be undone, by a request or by its policy: no alternate is tried."""


class NotFound(WorldError):
    """The object does not exist."""


class Conflict(WorldError):
    """A concurrent change was faster: read again before repeating."""


class Busy(Conflict):
    """Something else is under way on the subject."""


class Superseded(Conflict):
    """A newer epoch of the same run has been seen: stop, another engine has taken the run over."""


class LockLost(Superseded):
    """The run does not hold the lock of its server: stop it."""


class Behind(Superseded):
    """The journal has less progress of the run than was carried out: its database was restored from an older copy."""


class Unavailable(WorldError):
    """No answer: the request may have taken effect or not. Read, or ask again; never assume."""


class Invalid(Refused):
    """The request itself is invalid; `reason` names the offending part."""


class Forbidden(Refused):
    """The requester is not allowed to do this."""


class Unauthenticated(Refused):
    """The token of the requester is no longer valid."""


class WrongState(Conflict):
    """The state of the server does not allow it now."""
