"""What is copied between two databases of Placement: kinds of rows, in the order in which they are written.

Invariant: a row has names and uuids only, never the numbers by which one database refers to its own rows, so that rows
of any two databases can be compared.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

Row = tuple[Any, ...]


class Kind(NamedTuple):
    """table: the name of its table in the modules of both databases. columns: of a row here."""

    title: str
    table: str
    columns: tuple[str, ...]


RESOURCE_CLASSES = Kind("resource classes", "resource_classes", ("name",))  # without standard ones
TRAITS = Kind("traits", "traits", ("name",))  # without standard ones
PROVIDERS = Kind("providers", "providers", ("uuid", "name", "generation", "parent", "root"))  # parents first
INVENTORIES = Kind(
    "inventories",
    "inventories",
    ("provider", "class", "total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio"),
)
PROVIDER_TRAITS = Kind("traits of providers", "provider_traits", ("provider", "trait"))
PROVIDER_AGGREGATES = Kind("aggregates of providers", "provider_aggregates", ("provider", "aggregate"))
CONSUMERS = Kind("consumers", "consumers", ("uuid", "generation", "project", "user", "type"))  # with allocations
ALLOCATIONS = Kind("allocations", "allocations", ("consumer", "provider", "class", "amount"))

KINDS = (
    *(RESOURCE_CLASSES, TRAITS, PROVIDERS, INVENTORIES, PROVIDER_TRAITS, PROVIDER_AGGREGATES, CONSUMERS),
    ALLOCATIONS,
)
"""All of them, in the order in which they are read and written: later ones refer to earlier ones."""
NAMES = (RESOURCE_CLASSES, TRAITS)


class PlacementContents(Protocol):
    """One of the two databases, in a transaction that sees one snapshot."""

    title: str

    @property
    def problems(self) -> list[str]:
        """Return why rows that were read cannot be copied."""

    @property
    def left_out(self) -> Mapping[str, int]:
        """Return how many rows that no client can see were read, by their description."""

    def count(self) -> int:
        """Return the number of rows, to show progress."""

    def rows(self, kind: Kind) -> Iterator[Row]:
        """Read all rows of a kind. Read kinds in their order: later ones refer to earlier ones."""

    def as_stored(self, kind: Kind, row: Row) -> Row:
        """Return a row as this database gives it back once it was written: some store numbers less exactly."""

    def lock(self) -> None:
        """Lock out other writers, where the database can. Raises: Refused: its contents cannot be replaced."""

    def clear(self) -> None:
        """Delete everything."""

    def write(self, kind: Kind, rows: Iterable[Row]) -> None:
        """Write rows into the empty database. Write kinds in their order."""

    def finish(self) -> None:
        """Write what depends on all rows."""


def parents_first(providers: Iterable[Row]) -> list[Row]:
    """Sort rows of providers so that each one follows its parent; those with an unknown parent come last."""
    children: dict[str | None, list[Row]] = {}
    for row in providers:
        children.setdefault(row[3], []).append(row)
    ordered = children.pop(None, [])
    for row in ordered:
        ordered += children.pop(row[0], [])
    return ordered + [row for rows in children.values() for row in rows]
