"""Output of the demo: text for people, a line of JSON for each event for programs."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import msgspec
from rich.console import Console, RenderableType
from rich.text import Text

from whimbrel.api.views.moves import StepTaken
from whimbrel.cli import move_view


class Output(Protocol):
    def scene(self, title: str) -> None:
        """Begin a part of the story."""

    def say(self, text: str, **facts: Any) -> None:
        """Write a sentence; facts: data for programs."""

    def command(self, *words: str) -> None:
        """Show the command that a person would type here."""

    def steps(self, steps: Iterable[StepTaken]) -> None:
        """Show steps of a move."""

    def show(self, table: RenderableType, facts: Mapping[str, Any]) -> None: ...


class Terminal:
    """picture_from: the scene at which the picture of the console begins; the whole story is too long for one."""

    def __init__(self, console: Console, picture_from: str | None = None) -> None:
        self._console = console
        self._picture_from = picture_from

    def scene(self, title: str) -> None:
        if title == self._picture_from:
            self._console.export_text(clear=True)
        self._console.print(f"\n[bold cyan]{title}[/]")

    def say(self, text: str, **_: Any) -> None:
        self._console.print(f"  {text}")

    def command(self, *words: str) -> None:
        self._console.print(Text(f"  $ {' '.join(words)}", "bold"))

    def steps(self, steps: Iterable[StepTaken]) -> None:
        for step in steps:
            self._console.print(Text.assemble("  ", move_view.line(step)))

    def show(self, table: RenderableType, _facts: Mapping[str, Any]) -> None:
        self._console.print()
        self._console.print(table)
        self._console.print()


class JsonLines:
    def scene(self, title: str) -> None:
        self._write("scene", {"title": title})

    def say(self, text: str, **facts: Any) -> None:
        self._write("said", {"text": Text.from_markup(text).plain, **facts})

    def command(self, *words: str) -> None:
        self._write("command", {"command": " ".join(words)})

    def steps(self, steps: Iterable[StepTaken]) -> None:
        for step in steps:
            facts = msgspec.structs.asdict(step)
            self._write("step", {"action_event": facts.pop("event"), **facts})

    def show(self, _table: RenderableType, facts: Mapping[str, Any]) -> None:
        self._write("books", facts)

    def _write(self, event: str, facts: Mapping[str, Any]) -> None:
        print(msgspec.json.encode({"event": event, **facts}).decode(), flush=True)
