"""The law of every HTTP client here: no answer is Unavailable, however it came; what was asked may be done, or not."""

from collections.abc import Iterator
from contextlib import contextmanager

from whimbrel.domain.errors import Unavailable, WorldError


@contextmanager
def unanswered(saying: str) -> Iterator[None]:
    """Put this around sending and receiving, and around nothing else. saying: who does not answer what.

    All that happens there counts, not httpx's own errors only: when a connection ends at the wrong moment, what it
    stands on fails in ways of its own (anyio asks the socket that uvloop has let go for its peer: AttributeError).
    """
    try:
        yield
    except WorldError:
        raise  # of who makes the body while it is sent
    except Exception as error:
        raise Unavailable(f"{saying}: {error!r}") from error
