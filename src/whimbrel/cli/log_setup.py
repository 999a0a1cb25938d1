"""Where the program's log goes: to standard error, so that standard output is for what was asked.

Law: no work fails because a line about it cannot be written, as when the log is on a disk that is full.
"""

import logging
import sys
from contextlib import suppress
from typing import TextIO

import structlog


def configure(verbose: bool) -> None:
    """Write warnings and worse, with `verbose` everything."""
    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(),
                exception_formatter=structlog.dev.plain_traceback,  # others show local variables, secrets too
            ),
        ],
        logger_factory=structlog.PrintLoggerFactory(Forgiving(sys.stderr)),  # type: ignore[arg-type]
    )


class Forgiving:
    """A file for lines that may be lost; Python's own logging forgives by itself."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._file.flush()
