"""Lists of the plug-in on terminals: nothing is broken over lines, and scripts get everything."""

import argparse
import io
from typing import Any

import pytest
from cliff.formatters.table import TableFormatter

from whimbrel.openstackclient import maintenance_commands, move_commands
from whimbrel.openstackclient.terminal_fit import Kinds, Row, fitted, fitted_to

ID = "4300c00c-8af5-4ec5-a02d-d181fae07eeb"
OTHER = ID.replace("c00c", "c00d")
HOST = "compute-rack12-node07.example.org"
MOVES: list[Row] = [
    (ID, "live_migrate", "a-database-with-a-long-name", HOST, "n2", "rolled back", None, None, "No valid host " * 9),
    (OTHER, "resize", "db", "n2", HOST, "parked", "await_verdict", "301 s", None),
]
MAINTENANCES: list[Row] = [(ID, "new disks in the whole of rack 12", "planned", "2026-01-31T10:00:00Z", "0 of 2 moved")]
SERVERS: list[Row] = [("db", ID, HOST, "cold, with downtime", HOST, "moving", OTHER, "why " * 20)]


def lines(columns: Any, rows: Any) -> list[str]:
    """Return what the formatter of the client writes."""
    written = io.StringIO()
    options = argparse.Namespace(max_width=0, fit_width=False, print_empty=False)
    TableFormatter().emit_list(columns, rows, written, options)
    return written.getvalue().splitlines()


@pytest.mark.parametrize(
    ("columns", "rows", "kinds"),
    [
        (move_commands.COLUMNS, MOVES, move_commands.KINDS),
        (maintenance_commands.COLUMNS, MAINTENANCES, maintenance_commands.KINDS),
        (maintenance_commands.SERVER_COLUMNS, SERVERS, maintenance_commands.SERVER_KINDS),
    ],
)
@pytest.mark.parametrize("width", [80, 120, 400])
def test_a_list_fits_and_has_a_line_for_each_object(columns: Any, rows: list[Row], kinds: Kinds, width: int) -> None:
    written = lines(*fitted_to(width, columns, rows, kinds))
    assert max(map(len, written)) <= width
    assert len(written) == 4 + len(rows)
    assert any("4300c00" in line for line in written)
    if width == 400:
        assert (lines(columns, rows)) == written


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def fitted_with(output: io.StringIO, **options: Any) -> Any:
    asked = argparse.Namespace(**{"formatter": "table", "columns": [], "fit_width": False, "max_width": 0} | options)
    return fitted(move_commands.COLUMNS, MOVES, move_commands.KINDS, asked, output)


def test_scripts_get_everything() -> None:
    everything = (move_commands.COLUMNS, MOVES)
    assert fitted_with(io.StringIO()) == everything
    assert fitted_with(Terminal(), formatter="json") == everything
    assert fitted_with(Terminal(), fit_width=True) == everything


def test_columns_that_are_asked_for_are_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    columns, rows = fitted_with(Terminal(), columns=["ID", "Server", "Step"])
    assert list(columns) == ["ID", "Server", "Step"]
    assert [row[0] for row in rows] == ["4300c00c", "4300c00d"]
