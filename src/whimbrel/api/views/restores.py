"""A restore of databases: how the journal compares with the hosts."""

import msgspec


class Hold(msgspec.Struct, kw_only=True):
    """Why all runs are held. restoring: a restore has begun, and repairs go on."""

    at: float
    because: str
    restoring: bool


class RunCheck(msgspec.Struct, kw_only=True):
    """An open run. verdict: whether the hosts agree with the journal."""

    id: str
    saga: str
    server_id: str
    at: str
    way: str
    state: str
    verdict: str
    because: str


class LostRun(msgspec.Struct, kw_only=True):
    """A run that hosts have seen and the journal lacks."""

    id: str
    server: str | None
    hosts: list[str]
    epoch: int
    at: float


class Survey(msgspec.Struct, kw_only=True):
    """unreachable: why a host or a cell was not compared, by its name. closed: the runs that this request closed."""

    incarnation: int
    held: Hold | None
    is_settled: bool
    behind: list[str]
    runs: list[RunCheck]
    lost: list[LostRun]
    unreachable: dict[str, str]
    closed: list[str] = []


class Ending(msgspec.Struct, kw_only=True):
    """Whether runs continue; reasons: why not."""

    held: Hold | None
    reasons: list[str]


class SurveyAnswer(msgspec.Struct):
    restore: Survey


class EndingAnswer(msgspec.Struct):
    restore: Ending
