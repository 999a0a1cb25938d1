"""How a command writes what it has read: a table, JSON, or values for scripts, as the openstack client has them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter

from whimbrel.cli import terminal
from whimbrel.domain.errors import Invalid

Json = Annotated[bool, Parameter(help="One JSON document instead of text.")]
WatchedJson = Annotated[bool, Parameter(help="JSON instead of text; with --watch one line each time.")]


@Parameter(name="*")
@dataclass(frozen=True)
class Output:
    json: bool = False
    "One JSON document instead of a table."
    format: Annotated[Literal["table", "json", "value"], Parameter(name=("--format", "-f"))] = "table"
    "value: the columns of `--column` without a frame: a line for each row of a list, for each column of one object."
    column: Annotated[tuple[str, ...], Parameter(name=("--column", "-c"))] = ()
    "A field of the JSON document; may be repeated. With `--format value` or `json`."

    @property
    def is_json(self) -> bool:
        return self.json or self.format == "json"

    def check_watchable(self) -> None:
        """Raises: Invalid: it has the form of one answer, and several are watched."""
        if self.column or self.format == "value":
            raise Invalid("--column and --format value show one answer: without --watch")

    def wrote(self, answer: Mapping[str, Any], name: str) -> bool:
        """Write an answer, unless a table is wanted. name: where it has the list or object.

        Raises: Invalid: there is no such column, or it is for the table.
        """
        if not self.json and self.format == "table":
            if self.column:
                raise Invalid("--column is for --format value or json")
            return False
        content = self._chosen(msgspec.to_builtins(answer[name]))
        if self.is_json:
            terminal.write_json({**answer, name: content})
        else:
            _write_values(content)
        return True

    def _chosen(self, content: Any) -> Any:
        """Return the rows, or the object, with the wanted columns only."""
        if isinstance(content, list):
            return [self._columns(row) for row in content]
        return self._columns(content)

    def _columns(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        if unknown := [name for name in self.column if name not in row]:
            raise Invalid(f"there is no column {unknown[0]}: the columns are {', '.join(row)}")
        return {name: row[name] for name in self.column} if self.column else row


def _write_values(content: Sequence[Mapping[str, Any]] | Mapping[str, Any]) -> None:
    if isinstance(content, Mapping):
        for value in content.values():
            print(_word(value))
        return
    for row in content:
        print(" ".join(map(_word, row.values())))


def _word(value: Any) -> str:
    """Return a value as the openstack client writes it."""
    if isinstance(value, list | dict):
        return msgspec.json.encode(value).decode()
    return str(value)
