"""Which hosts and databases Placement is measured with, and the sheet on which the figures of one server are shown."""

import sys
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from figures import report
from placement_databases import postgres_problem
from rich.console import Console
from rich.table import Table

DATABASES = ("sqlite", "postgresql")
SIZES, LARGEST = (100, 1_000, 10_000), 100_000

Sizes = Annotated[str, Parameter(help=f"numbers of hosts; without any {SIZES}, `all` adds {LARGEST}")]
Chosen = Annotated[Literal["sqlite", "postgresql"] | None, Parameter(help="this database only")]
Lines = Annotated[bool, Parameter(help="print one JSON line for each figure instead of tables")]


def each(sizes: tuple[str, ...], db: str | None) -> Iterator[tuple[str, list[int]]]:
    """Yield each kind of database that is there, with the numbers of hosts that were asked for."""
    numbers = [int(word) for word in sizes if word != "all"] or [*SIZES, *[LARGEST] * ("all" in sizes)]
    for database in DATABASES:
        if db in (None, database) and not _is_missing(database):
            yield database, numbers


def _is_missing(database: str) -> bool:
    problem = postgres_problem() if database == "postgresql" else ""
    if problem:
        print(f"PostgreSQL is left out: {problem}", file=sys.stderr, flush=True)
    return bool(problem)


class Sheet:
    """The figures of one server: a table, or a JSON line each."""

    def __init__(self, database: str, hosts: int, kind: str, lines: bool) -> None:
        self._common = {"database": database, "hosts": hosts, "kind": kind}
        self._lines = lines
        self._notes: list[str] = []
        title = (
            f"{database}, {hosts:,} hosts, {kind}: milliseconds of processor time for one request, and how long it took"
        )
        self._table = Table(title=title, title_justify="left", caption_justify="left")
        self._table.add_column("request")
        for column in ("clients", "server", "database", "both", "goal", "p50", "p99", "a second"):
            self._table.add_column(column, justify="right")

    def add(self, name: str, figures: dict[str, Any], goal_ms: float | None = None) -> None:
        """Put down what the load of one kind of request came to. goal_ms: of processor time."""
        is_over = goal_ms is not None and figures["processor_ms"] > goal_ms
        if self._lines:
            goal = {} if goal_ms is None else {"goal_ms": goal_ms, "over": is_over}
            report(name, **self._common, **goal, **{key: it for key, it in figures.items() if key != "request"})
        goal_said = "" if goal_ms is None else f"{goal_ms:g}{' [red]over[/]' if is_over else ''}"
        used = [f"{figures[key]:.2f}" for key in ("server_ms", "database_ms", "processor_ms")]
        seen = [f"{figures[key]:.1f}" for key in ("p50_ms", "p99_ms")]
        self._table.add_row(name, str(figures["clients"]), *used, goal_said, *seen, f"{figures['per_s']:.0f}")

    def note(self, name: str, said: str, **figures: Any) -> None:
        """Put down something else, with a sentence for people."""
        if self._lines:
            report(name, **self._common, **figures)
        self._notes.append(said)

    def show(self) -> None:
        if not self._lines:
            self._table.caption = "\n".join(self._notes)
            Console(width=120 if not sys.stdout.isatty() else None).print(self._table)
