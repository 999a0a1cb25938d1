"""Progress of a long operation: a bar on a terminal, nothing in a pipe."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


def bar(console: Console | None) -> Progress:
    """Make a bar that disappears when it is done; None: show nothing."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=console is None or not console.is_terminal)
