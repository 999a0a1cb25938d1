"""`whimbrel demo`: a cloud of three processes, some moves, a kill -9 in the middle of one, and the books at the end."""

from whimbrel.cli.demo.command import demo

__all__ = ["demo"]
