"""`whimbrel demo`: a cloud of three processes, some moves, a kill -9 during one, and the accounting at the end."""

from whimbrel.cli.demo.command import demo

__all__ = ["demo"]
