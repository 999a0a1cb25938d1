"""Formats of strings: the same characters as in Nova."""

import pytest

from whimbrel.api.http.schema import compiled
from whimbrel.api.schemas.parameters import DESCRIPTION, NAME


@pytest.mark.parametrize("text", ["a", "é", "a b", "a\xa0b", "a\u3000b", "日本", "a-b_c.d:e"])
def test_printable_names(text: str) -> None:
    assert compiled(NAME).is_valid(text)


@pytest.mark.parametrize("text", ["", " a", "a ", "a\xa0", "a\tb", "a\nb", "a\u2028b", "a\xadb", "\U0001f600"])
def test_other_names(text: str) -> None:
    assert not compiled(NAME).is_valid(text)


@pytest.mark.parametrize("text", ["", None, " a ", "x" * 255])
def test_descriptions(text: str | None) -> None:
    assert compiled(DESCRIPTION).is_valid(text)


@pytest.mark.parametrize("text", ["a\nb", "\ta", "\x00", "\U0001f600", "x" * 256, 1])
def test_no_descriptions(text: object) -> None:
    assert not compiled(DESCRIPTION).is_valid(text)
