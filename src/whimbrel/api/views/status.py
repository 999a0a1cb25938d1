"""The status of a cloud: what is wrong now, and how much of everything there is."""

from typing import Any

import msgspec


class Finding(msgspec.Struct, kw_only=True):
    """One thing that is wrong. severity: "error" or "warning". since: seconds since 1970. command: what to run next."""

    severity: str
    kind: str
    subject: str
    text: str
    command: str
    since: float | None = None


class HostCounts(msgspec.Struct, kw_only=True):
    """Hosts of one cell. disabled: up, but they get no servers."""

    up: int = 0
    disabled: int = 0
    down: int = 0
    forced_down: int = 0


class LastProof(msgspec.Struct, kw_only=True):
    """The result of a proof. at: seconds since 1970. unseen: how much of the cloud it could not check."""

    at: float
    violations: int
    unseen: int


class Certificate(msgspec.Struct, kw_only=True):
    """A certificate of the process that answers. expires_at: seconds since 1970."""

    file: str
    name: str
    expires_at: float


class Status(msgspec.Struct, kw_only=True):
    """ok: no finding is an error. processes: role -> live ones. hosts: by cell; null: the cell does not answer.

    debts: undo -> runs that still have to do it. services: whether they answer. bus: "": connected, else why not; null:
    there is none. certificates: the first to expire comes first. proofs: the last ones, the newest first.
    """

    ok: bool
    at: float
    findings: list[Finding]
    processes: dict[str, int]
    hosts: dict[str, HostCounts | None]
    runs_open: int
    runs_parked: int
    debts: dict[str, int] = {}
    services: dict[str, bool] = {}
    bus: str | None = None
    certificates: list[Certificate] = []
    proof: LastProof | None = None
    proofs: list[LastProof] = []


class StatusAnswer(msgspec.Struct):
    status: Status


class SettingsAnswer(msgspec.Struct):
    """The rules by which the cloud moves servers and chooses hosts, by their tables."""

    settings: dict[str, Any]
