"""Settings that are lists of `name=ratio`."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from whimbrel.domain.errors import Invalid


def ratios(setting: Sequence[str]) -> Mapping[str, float]:
    """Parse the setting. Raises: Invalid: an item is not NAME=NUMBER."""
    return _read(tuple(setting))


@lru_cache(maxsize=16)
def _read(setting: tuple[str, ...]) -> Mapping[str, float]:
    return dict(_pair(text) for text in setting)


def _pair(text: str) -> tuple[str, float]:
    name, _, ratio = text.partition("=")
    try:
        return name.strip(), float(ratio)
    except ValueError:
        raise Invalid(f"'{text}' is not NAME=NUMBER") from None
