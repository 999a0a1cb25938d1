"""Allocation candidates: found tree by tree, up to the limit.

Invariants: a tree yields its second candidate only after each tree of the same round has yielded its first, so that
one host with many devices does not use up a limit. The work is bounded, as provider_choices.py describes. It is done
in pieces, between which providers may change: each piece uses their current state.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from whimbrel.domain.ids import ProviderId
from whimbrel.placement.search import ProviderIndex, Request
from whimbrel.placement.tree_search import Candidate, SearchContext, assignments_in

ROUND_ROBIN = 1024
"""Trees per round; the next ones follow when these have yielded all."""

Key = tuple[frozenset[tuple[ProviderId, str, int]], frozenset[tuple[str, frozenset[ProviderId]]]]


def candidates(index: ProviderIndex, request: Request) -> list[Candidate]:
    """List the candidates of the request, without duplicates."""
    search = Search(index, request)
    found = search.piece()
    while not search.is_done:
        found += search.piece()
    return found


class Search:
    """Finds the candidates of a request in pieces, ROUND_ROBIN trees at a time."""

    def __init__(self, index: ProviderIndex, request: Request) -> None:
        self._index = index
        self._request = request
        self._context = SearchContext(index, request)
        self._version = index.version
        self._has_changed = False
        self._roots = iter(index.roots(request))
        self._left = request.limit
        self._seen: set[Key] = set()
        self.is_done = self._context.is_unsatisfiable

    def piece(self) -> list[Candidate]:
        """List the next candidates. Providers may change between calls."""
        if self.is_done:
            return []
        roots: Iterable[ProviderId] = islice(self._roots, ROUND_ROBIN)
        if self._index.version != self._version:
            self._start_again()
        if self._has_changed:
            roots = self._index.still_roots(list(roots), self._request)
        # A tree is searched only in its turn: the limit may be reached before.
        found = _round_robin(assignments_in(self._context, root) for root in roots)
        if self._context.sharing:
            found = self._once(found)
        piece = list(islice(found, self._left))
        if self._left is not None:
            self._left -= len(piece)
        following = (
            [] if self._left == 0 or self._context.is_unsatisfiable else list(self._roots)
        )  # by ids: rows are reused
        self._roots = iter(following)
        self.is_done = not following
        return piece

    def _start_again(self) -> None:
        """Rebuild the context for the current providers."""
        self._version = self._index.version
        self._has_changed = True  # since the roots were listed
        self._context = SearchContext(self._index, self._request, self._context.budget)

    def _once(self, found: Iterable[Candidate]) -> Iterator[Candidate]:
        """Remove duplicates: candidates of sharing providers alone are found in each tree that they share with."""
        for candidate in found:
            key = _key(candidate)
            if key not in self._seen:
                self._seen.add(key)
                yield candidate


def _round_robin(assignments: Iterable[Iterator[Candidate]]) -> Iterator[Candidate]:
    while assignments:
        going = []
        for assignment in assignments:
            candidate = next(assignment, None)
            if candidate is not None:
                going.append(assignment)
                yield candidate
        assignments = going


def _key(candidate: Candidate) -> Key:
    taken = frozenset((uuid, name, amount) for uuid, given in candidate.parts.items() for name, amount in given.items())
    return taken, frozenset((suffix, frozenset(uuids)) for suffix, uuids in candidate.mappings.items())
