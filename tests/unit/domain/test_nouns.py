"""Numbers in sentences have the right form of their noun."""

from whimbrel.domain.nouns import counted


def test_one_thing_is_singular_and_any_other_number_is_plural() -> None:
    assert [counted(number, "host") for number in (0, 1, 2)] == ["0 hosts", "1 host", "2 hosts"]
