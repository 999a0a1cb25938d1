"""What nobody thought of: words and values that a service is sent to see that it answers whatever comes."""

from typing import Any

from hypothesis import strategies as st

ODD_WORDS = ("", " ", "\x00", "é", "\U0001f980", "a" * 300, "a,b", "name:asc", "-1", "1e9", "%", "../x")
NUMBERS = (0, 1, 2, -1, 2**31, 2**63, 10**30, 1.5, 1e300)


class Anything:
    """What one service is sent: the words that it knows, and odd ones."""

    def __init__(self, *known: str) -> None:
        self.every_word = (*known, *ODD_WORDS)
        self.words = words = st.sampled_from(self.every_word)
        leaves = words | st.sampled_from(NUMBERS) | st.none() | st.booleans()
        self.values: st.SearchStrategy[Any] = st.recursive(
            leaves, lambda some: st.lists(some, max_size=2) | st.dictionaries(words, some, max_size=2), max_leaves=4
        )

    def nearly(self, good: Any) -> st.SearchStrategy[Any]:
        """Return good values that are bad in places."""
        return _nearly(self, good)


@st.composite
def _nearly(draw: st.DrawFn, anything: Anything, good: Any) -> Any:
    def renamed(key: str) -> str:
        return draw(anything.words) if draw(st.integers(0, 19)) == 0 else key

    if draw(st.integers(0, 11)) == 0:
        return draw(anything.values)
    if isinstance(good, dict):
        return {renamed(key): draw(anything.nearly(value)) for key, value in good.items()}
    return [draw(anything.nearly(each)) for each in good] if isinstance(good, list) else good
