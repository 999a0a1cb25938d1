"""Negotiation of microversions."""

from functools import lru_cache

import microversion_parse

from whimbrel.http.problem import Problem


class Microversions:
    """The microversions of a service, from `major`.`first` to `major`.`last`.

    legacy_header: an older header, read if the standard one does not name the service. unreadable, unknown: sentences
    for a malformed or an unsupported version, with `{text}`.
    """

    def __init__(
        self, service: str, major: int, first: int, last: int, *, legacy_header: str = "", unreadable: str, unknown: str
    ) -> None:
        self._service, self._major, self._first, self._last = service, major, first, last
        self._legacy_header = legacy_header
        self._unreadable, self._unknown = unreadable, unknown
        self.negotiate = lru_cache(maxsize=256)(self._negotiate)

    def _negotiate(self, standard: str, legacy: str = "") -> int:
        """Return the minor version that the values of the two headers request. Raises: Problem: 400, 406."""
        sent = {"openstack-api-version": standard, self._legacy_header: legacy}
        try:
            text = microversion_parse.get_version(
                {name: value for name, value in sent.items() if value}, self._service, [self._legacy_header]
            )
        except ValueError:
            raise self._not_readable(standard or legacy) from None
        if text is None:
            return self._first
        return self._last if text.lower() == "latest" else self._minor(text)

    def _minor(self, text: str) -> int:
        try:
            major, minor = microversion_parse.parse_version_string(text)
        except TypeError:
            raise self._not_readable(text) from None
        if major == self._major and self._first <= minor <= self._last:
            return int(minor)
        served = {"max_version": f"{self._major}.{self._last}", "min_version": f"{self._major}.{self._first}"}
        raise Problem(406, self._unknown.format(text=text, **served), extra=served)

    def _not_readable(self, text: str) -> Problem:
        return Problem(400, self._unreadable.format(text=text))
