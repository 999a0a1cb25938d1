"""The log goes to standard error; standard output is for results.

Invariant: no operation fails because a log line cannot be written, for example on a full disk.
"""

import logging
import sys
from contextlib import suppress
from typing import TextIO

import structlog


def configure(verbose: bool) -> None:
    """Log warnings and errors; with `verbose`, everything."""
    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # it warns of each TLS connection that its peer closes
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(),
                exception_formatter=structlog.dev.plain_traceback,  # the default one shows local variables, secrets too
            ),
        ],
        logger_factory=structlog.PrintLoggerFactory(Forgiving(sys.stderr)),  # type: ignore[arg-type]
    )


class Forgiving:
    """A file that drops lines it cannot write; Python's own logging does so by itself."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._file.flush()
