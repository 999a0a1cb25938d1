"""Maps failed HTTP requests to Unavailable, in every client: without a response the operation may be done or not."""

from collections.abc import Iterator
from contextlib import contextmanager

from whimbrel.domain.errors import Unavailable, WorldError


@contextmanager
def unanswered(saying: str) -> Iterator[None]:
    """Wrap sending and receiving, and nothing else. saying: what does not answer, for the error message.

    All exceptions count, not only httpx's: if a connection ends at the wrong moment, lower layers fail in ways of their
    own (anyio asks the socket that uvloop has released for its peer: AttributeError).
    """
    try:
        yield
    except WorldError:
        raise  # raised by the source of the request's body
    except Exception as error:
        raise Unavailable(f"{saying}: {error!r}") from error
