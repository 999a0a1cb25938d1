"""Copies the contents of one database of Placement into another in one transaction, and compares two databases.

Invariant: a copy is read back and compared with its source, row by row, before it is committed. So the target has all
of it, or none. The source is read in one snapshot.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from whimbrel.adapters.sql.placement_transfer.transfer_rows import KINDS, NAMES, Kind, PlacementContents, Row
from whimbrel.domain.errors import Refused
from whimbrel.placement.resource_names import is_custom

SHOWN = 10
"""How many rows of a kind that differ are named."""

Show = Callable[[str, int, int], None]
"""Receives the operation, and the rows done of all; these numbers are close, not exact."""


@dataclass(frozen=True)
class KindReport:
    """How the rows of a kind compare. only_in_source, only_in_target: at most SHOWN rows, as text."""

    kind: str
    rows: int  # of the source
    missing: int = 0  # of the source, that the target does not have
    added: int = 0  # of the target, that the source does not have
    only_in_source: Sequence[str] = ()
    only_in_target: Sequence[str] = ()

    @property
    def is_equal(self) -> bool:
        return not self.missing and not self.added


@dataclass(frozen=True)
class Report:
    kinds: Sequence[KindReport]
    left_out: Mapping[str, int] = field(default_factory=dict)  # rows of the source that no client sees

    @property
    def is_equal(self) -> bool:
        return all(each.is_equal for each in self.kinds)


def copy(source: PlacementContents, target: PlacementContents, *, replace: bool, show: Show) -> Report:
    """Copy everything; the caller commits or rolls back. replace: delete what the target has before.

    Raises: Refused: the target is not empty, rows cannot be copied, or the target did not store them unchanged.
    """
    target.lock()
    if not replace and (has := _first_kind(target)):
        raise Refused(f"{target.title} is not empty, it has {has}: give --replace to delete all that it has")
    target.clear()  # also rows that no client sees
    target.problems.clear()
    progress = _Progress(show, source.count() * 2)
    for kind in KINDS:
        target.write(kind, progress.of(f"copying {kind.title}", source.rows(kind)))
        _check(source)
    target.finish()
    report = _compare(source, target, progress)
    if not report.is_equal:
        raise Refused(f"{target.title} did not store everything unchanged. {'; '.join(differences(report))}")
    return report


def compare(source: PlacementContents, target: PlacementContents, show: Show) -> Report:
    """Compare everything. Raises: Refused: rows of either cannot be compared."""
    return _compare(source, target, _Progress(show, source.count()))


def differences(report: Report) -> Iterator[str]:
    """Yield a sentence for each kind that differs."""
    for each in report.kinds:
        for number, rows, where in (
            (each.missing, each.only_in_source, "source"),
            (each.added, each.only_in_target, "target"),
        ):
            if number:
                yield f"{each.kind}, {number} only in the {where}: {'; '.join(rows)}"


def _compare(source: PlacementContents, target: PlacementContents, progress: "_Progress") -> Report:
    kinds = []
    for kind in KINDS:
        read = progress.of(f"comparing {kind.title}", source.rows(kind))
        missing = {_stored(kind, row, source, target) for row in read}
        rows, added = len(missing), list[Row]()
        for found in target.rows(kind):
            row = _stored(kind, found, source, target)
            if row in missing:
                missing.remove(row)
            elif _counts(kind, row):
                added.append(row)
        texts = (_texts(kind, sorted(each, key=str)[:SHOWN]) for each in (missing, added))
        kinds.append(KindReport(kind.title, rows, len(missing), len(added), *texts))
        for each in (source, target):
            _check(each)
    return Report(kinds, dict(source.left_out))


def _first_kind(contents: PlacementContents) -> str | None:
    """Return a kind of which there are rows; None: it is empty."""
    return next((kind.title for kind in KINDS if any(_counts(kind, row) for row in contents.rows(kind))), None)


def _counts(kind: Kind, row: Row) -> bool:
    """Check whether a row may not be there unless it was copied: a newer Placement has newer standard names."""
    return kind not in NAMES or is_custom(row[0])


def _stored(kind: Kind, row: Row, source: PlacementContents, target: PlacementContents) -> Row:
    return target.as_stored(kind, source.as_stored(kind, row))


def _texts(kind: Kind, rows: Iterable[Row]) -> list[str]:
    return [" ".join(f"{name}={value}" for name, value in zip(kind.columns, row, strict=True)) for row in rows]


def _check(contents: PlacementContents) -> None:
    """Raises: Refused."""
    if contents.problems:
        more = len(contents.problems) - SHOWN
        lines = [*contents.problems[:SHOWN], *([f"and {more} more"] if more > 0 else [])]
        raise Refused(f"{contents.title} has rows that cannot be copied:\n" + "\n".join(lines))


class _Progress:
    def __init__(self, show: Show, total: int) -> None:
        self._show = show
        self._total = total
        self._done = 0

    def of(self, what: str, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield rows, and show the beginning and every thousandth."""
        self._show(what, min(self._done, self._total), self._total)
        for row in rows:
            self._done += 1
            if self._done % 1000 == 0:
                self._show(what, min(self._done, self._total), self._total)
            yield row
