"""Rows of runs: columns as they are, and documents of what a run knows, has done and owes."""

from collections.abc import Callable
from typing import Any

import msgspec
import sqlalchemy as sa

from whimbrel.domain.errors import Unavailable
from whimbrel.domain.run import LogEntry, Run

FactsType = Callable[[str, int], type]
"""(saga name, version) -> the type of its facts. Raises: KeyError."""

_DOCS = ("facts", "log", "debts")
_encode = msgspec.json.Encoder().encode
_decode_log = msgspec.json.Decoder(tuple[LogEntry, ...]).decode
_decode_debts = msgspec.json.Decoder(tuple[str, ...]).decode


def run_values(run: Run) -> dict[str, Any]:
    values = {name: getattr(run, name) for name in Run.__struct_fields__}
    for name in _DOCS:
        values[name] = _encode(values[name])
    return values


def read_run(row: sa.Row[Any], facts_type: FactsType) -> Run:
    """Raises: Unavailable: somebody has written what is no run."""
    values = dict(row._mapping)
    try:
        values["facts"] = msgspec.json.decode(values["facts"], type=facts_type(row.saga, row.version))
        values["log"] = _decode_log(values["log"])
        values["debts"] = _decode_debts(values["debts"])
    except msgspec.DecodeError as error:
        raise _unreadable(row, str(error)) from None
    except KeyError:
        raise _unreadable(row, f"there is no list of steps {row.saga!r}, version {row.version}") from None
    return Run(**values)


def _unreadable(row: sa.Row[Any], why: str) -> Unavailable:
    what = f"the journal's row of run {row.id} cannot be read: {why}"
    return Unavailable(f"{what}; it is of server {row.subject}: have it back from a backup")
