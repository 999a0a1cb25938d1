"""Rows of runs: plain columns, and documents for the run's facts, log and debts.

A row names steps; a name of a former release is read as the present one (see `saga.step` about renaming).
"""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from whimbrel.adapters.unknown_fields import unknown_field
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.run import LogEntry, Run
from whimbrel.saga.engine import DEBTS


class Sagas(Protocol):
    """Lookup of sagas by name and version."""

    def facts_type(self, name: str, version: int) -> type:
        """Return the type of the saga's facts. Raises: KeyError: unknown saga."""
        ...

    def has_step(self, name: str, version: int, step: str) -> bool:
        """Check whether the saga has this step, under its present or a former name. Raises: KeyError: unknown saga."""
        ...

    def renamed(self, name: str, version: int) -> Mapping[str, str]:
        """Return former name -> present name of renamed steps; empty if the saga is unknown."""
        ...


COLUMNS = tuple(name for name in Run.__struct_fields__ if name not in ("is_foreign", "incarnation", "unsaved"))

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
    return values


def read_run(row: sa.Row[Any], sagas: Sagas) -> Run:
    """Raises: Unavailable: the row is damaged, or of a saga that this program does not know."""
    values = dict(row._mapping)
    try:
        values["facts"] = msgspec.json.decode(values["facts"], type=sagas.facts_type(row.saga, row.version))
        values["log"] = decode_log(values["log"])
        values["debts"] = _decode_debts(values["debts"])
        if renamed := sagas.renamed(row.saga, row.version):
            values |= _with_present_names(values, renamed)
    except msgspec.DecodeError as error:
        raise Unavailable(f"{_cannot_be_read(row)}: {error}; have it back from a backup") from None
    except KeyError:
        raise Unavailable(f"{_cannot_be_read(row)}: {_saga_of(row)} is of a newer Whimbrel: use that one") from None
    is_foreign = row.finished_at is None and unknown_part(row, sagas) is not None
    return Run(**values, is_foreign=is_foreign)


def _with_present_names(values: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    return {
        "at": renamed.get(values["at"], values["at"]),
        "debts": tuple(renamed.get(name, name) for name in values["debts"]),
        "log": tuple(replace(entry, step=renamed.get(entry.step, entry.step)) for entry in values["log"]),
    }


def unknown_part(row: sa.Row[Any], sagas: Sagas) -> str | None:
    """Return the part of a run, written by a newer program, that this program does not know; None: it knows all.

    row: saga, version, at, facts and log of the run. Raises: DecodeError: the row is damaged.
    """
    try:
        if row.at != DEBTS and not sagas.has_step(row.saga, row.version, row.at):
            return f"step {row.at} of {_saga_of(row)}"
        facts = sagas.facts_type(row.saga, row.version)
    except KeyError:
        return _saga_of(row)
    for name, document, kind in (("facts", row.facts, facts), ("log", row.log, _LOG)):
        try:
            msgspec.json.decode(document, type=kind)
        except msgspec.ValidationError as error:
            return f"{name}: {error}"
        if field := unknown_field(document, kind):
            return f"{name}: {field}"
    return None


def _saga_of(row: sa.Row[Any]) -> str:
    return f"list of steps {row.saga!r}, version {row.version}"


def _cannot_be_read(row: sa.Row[Any]) -> str:
    return f"the journal's row of run {row.id}, of server {row.subject}, cannot be read"
