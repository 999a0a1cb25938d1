"""Whatever happens while an answer is waited for, there was none; what the world said about it itself stays said."""

import pytest

from whimbrel.adapters.unanswered import unanswered
from whimbrel.domain.errors import NotFound, Unavailable


@pytest.mark.parametrize("error", [OSError("reset"), AttributeError("getpeername"), RuntimeError("closed")], ids=repr)
def test_it_is_unavailable_with_its_reason(error: Exception) -> None:
    with pytest.raises(Unavailable, match=f"the image service does not answer: {type(error).__name__}"):
        _fail(error)


def test_who_makes_the_body_is_heard() -> None:
    with pytest.raises(NotFound, match="the disk is gone"):
        _fail(NotFound("the disk is gone"))


def _fail(error: Exception) -> None:
    with unanswered("the image service does not answer"):
        raise error
