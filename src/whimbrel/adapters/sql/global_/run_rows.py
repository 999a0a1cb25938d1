"""Rows of runs: plain columns, and documents for the run's facts, log and debts.

Fields of facts and log entries that a newer program wrote are kept, and written back with each change of the run.

A row names steps; a name of a former release is read as the present one (see `saga.step` about renaming).
"""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from whimbrel.adapters.unknown_fields import unknown_field, with_unknown
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.run import LogEntry, Run, UnknownFacts
from whimbrel.saga.engine import DEBTS


class Sagas(Protocol):
    """Lookup of sagas by name and version."""

    def facts_type(self, name: str, version: int) -> type:
        """Return the type of the saga's facts. Raises: KeyError: unknown saga."""

    def has_step(self, name: str, version: int, step: str) -> bool:
        """Check whether the saga has this step, under its present or a former name. Raises: KeyError: unknown saga."""

    def renamed(self, name: str, version: int) -> Mapping[str, str]:
        """Return former name -> present name of renamed steps; empty if the saga is unknown."""


_NO_COLUMNS = ("is_foreign", "incarnation", "unsaved", "unknown")
COLUMNS = tuple(name for name in Run.__struct_fields__ if name not in _NO_COLUMNS)

_DOCS = ("facts", "log", "debts")
_LOG = tuple[LogEntry, ...]
_encode = msgspec.json.Encoder().encode
decode_log = msgspec.json.Decoder(_LOG).decode
_decode_debts = msgspec.json.Decoder(tuple[str, ...]).decode


def run_values(run: Run) -> dict[str, Any]:
    assert not run.is_foreign, "what this program does not know would be lost"
    values = {name: getattr(run, name) for name in COLUMNS}
    for name in _DOCS:
        values[name] = _encode(values[name])
    for name, was in run.unknown.items():
        kind = type(run.facts) if name == "facts" else _LOG
        values[name] = with_unknown(values[name], kind, was)
    return values | {"ticket": ticket_of(run)}


def ticket_of(run: Run) -> int | None:
    """Return the ticket of a live migration, for the column of it; None: it has not drawn one."""
    live = getattr(run.facts, "live", None)
    return getattr(live, "ticket", 0) or None


def source_host_of(run: Run) -> str | None:
    """Return the host that a move leaves, for the column of it. It is known when the run is accepted."""
    source = getattr(run.facts, "source", None)
    return getattr(source, "host", None)


def read_run(row: sa.Row[Any], sagas: Sagas) -> Run:
    """A run on a list that this program does not know is foreign, and its facts are not read.

    Raises: Unavailable: the row is damaged.
    """
    values = {name: getattr(row, name) for name in COLUMNS}  # _mapping would be made anew for each
    try:
        kind = sagas.facts_type(row.saga, row.version)
    except KeyError:
        kind = UnknownFacts
    try:
        values["facts"] = msgspec.json.decode(values["facts"], type=kind)
        values["log"] = decode_log(values["log"])
        values["debts"] = _decode_debts(values["debts"])
        if renamed := sagas.renamed(row.saga, row.version):
            values |= _with_present_names(values, renamed)
    except msgspec.DecodeError as error:
        raise Unavailable(f"{_cannot_be_read(row)}: {error}; restore it from a backup") from None
    if kind is UnknownFacts:
        return Run(**values, is_foreign=True)
    if row.finished_at is not None:
        return Run(**values)
    documents = {"facts": (row.facts, kind), "log": (row.log, _LOG)}
    unknown = {name: was for name, (was, kind) in documents.items() if _has_unknown(was, kind, values[name])}
    return Run(**values, is_foreign=not _has_step(row, sagas), unknown=unknown)


def _has_unknown(document: bytes, kind: Any, value: Any) -> bool:
    """Check whether a document has fields that its type does not declare. value: what it was decoded to."""
    return document != _encode(value) and unknown_field(document, kind) is not None


def _with_present_names(values: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    return {
        "at": renamed.get(values["at"], values["at"]),
        "debts": tuple(renamed.get(name, name) for name in values["debts"]),
        "log": tuple(replace(entry, step=renamed.get(entry.step, entry.step)) for entry in values["log"]),
    }


def unknown_part(row: sa.Row[Any], sagas: Sagas) -> str | None:
    """Return the part of a run that keeps this program from driving it; None: it can. Unknown fields do not.

    row: saga, version, at, facts and log of the run. Raises: DecodeError: the row is damaged.
    """
    try:
        if not _has_step(row, sagas):
            return f"step {row.at} of {_saga_of(row)}"
        facts = sagas.facts_type(row.saga, row.version)
    except KeyError:
        return _saga_of(row)
    for name, document, kind in (("facts", row.facts, facts), ("log", row.log, _LOG)):
        try:
            msgspec.json.decode(document, type=kind)
        except msgspec.ValidationError as error:
            return f"{name}: {error}"
    return None


def _has_step(row: sa.Row[Any], sagas: Sagas) -> bool:
    """Raises: KeyError: unknown saga."""
    return row.at == DEBTS or sagas.has_step(row.saga, row.version, row.at)


def _saga_of(row: sa.Row[Any]) -> str:
    return f"list of steps {row.saga!r}, version {row.version}"


def _cannot_be_read(row: sa.Row[Any]) -> str:
    return f"the journal's row of run {row.id}, of server {row.subject}, cannot be read"
