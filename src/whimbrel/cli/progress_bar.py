"""Progress of a long operation: a bar on a terminal, nothing in a pipe."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TextColumn, TimeElapsedColumn
from rich.text import Text


class _Count(MofNCompleteColumn):
    """How many of how many; nothing while the total is not known."""

    def render(self, task: Task) -> Text:
        return Text() if task.total is None else super().render(task)


def bar(console: Console | None) -> Progress:
    """Make a bar that disappears when it is done; None: show nothing."""
    columns = (TextColumn("{task.description}"), BarColumn(), _Count(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=console is None or not console.is_terminal)
