"""The processes of a cloud."""

import msgspec


class ListedProcess(msgspec.Struct, frozen=True, kw_only=True):
    """One process. Times are seconds since 1970."""

    id: str
    role: str
    name: str
    host: str
    pid: int
    release: str
    live: bool  # whether its lease is valid; dead ones are listed for an hour
    parts: tuple[str, ...]  # those of which a cloud has one
    started_at: float
    seen_at: float


class Processes(msgspec.Struct):
    processes: list[ListedProcess]
