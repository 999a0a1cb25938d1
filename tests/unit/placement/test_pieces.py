"""A search for candidates in pieces, between which providers come, go and change."""

from collections.abc import Sequence
from random import Random

import pytest

from tests.depth import one_in
from tests.unit.placement.test_index import Drawn, found
from whimbrel.domain.ids import ProviderId
from whimbrel.placement import candidates as of_candidates
from whimbrel.placement.candidates import Search, candidates
from whimbrel.placement.index import Index
from whimbrel.placement.inventory import Stock
from whimbrel.placement.provider import Node, Provider
from whimbrel.placement.search import Request, Wanted
from whimbrel.placement.tree_search import Candidate
from whimbrel.ports.placement.placement import Inventory

CPU = Request(groups={"": Wanted(resources={"VCPU": 1})})


def host(number: int, used: int = 0, parent: int | None = None) -> Node:
    uuid = ProviderId(f"p{number}")
    root = uuid if parent is None else ProviderId(f"p{parent}")
    provider = Provider(
        uuid=uuid, name=uuid, generation=0, parent=None if parent is None else ProviderId(f"p{parent}"), root=root
    )
    stocks = {"VCPU": Stock(inventory=Inventory(total=4), used=used)}
    return Node(provider=provider, stocks=stocks, traits=frozenset(), aggregates=frozenset())


@pytest.fixture(autouse=True)
def one_tree_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_candidates, "ROUND_ROBIN", 1)


def rest_of(search: Search) -> list[Candidate]:
    rest = []
    while not search.is_done:
        rest += search.piece()
    return rest


def roots(of: Sequence[Candidate]) -> set[str]:
    return {uuid for candidate in of for uuid in candidate.parts}


def test_what_changes_between_two_pieces_is_seen() -> None:
    """One goes, and its row is used again; one is full, one is moved below another."""
    index = Index(map(host, range(6)), Random(0))
    search = Search(index, CPU)
    first = search.piece()
    gone, full, moved, above, same = sorted({f"p{number}" for number in range(6)} - roots(first))
    below = int(above[1:])
    index.apply([ProviderId(gone)], [host(7)])
    index.apply((), [host(int(full[1:]), used=4), host(int(moved[1:]), parent=below)])
    assert roots(rest_of(search)) == {above, same, moved}


def test_a_search_that_nothing_can_answer_any_more_ends() -> None:
    index = Index(map(host, range(3)), Random(0))
    in_tree = Wanted(resources={"VCPU": 1}, in_tree=ProviderId("p1"))
    search = Search(index, Request(groups={"": in_tree, "_X": Wanted(resources={"VCPU": 1})}))
    search.piece()
    index.apply([ProviderId("p1")], ())
    assert rest_of(search) == []


@pytest.mark.parametrize("seed", one_in(4, range(60)))
def test_nothing_is_offered_of_a_provider_that_is_gone(seed: int) -> None:
    """Whatever comes of a piece is a way that a new search would find; so no request fails, whatever happens."""
    drawn = Drawn(seed)
    nodes = drawn.nodes(12)
    index = Index(nodes, Random(seed))
    request = drawn.request(nodes)
    search = Search(index, request)
    while not search.is_done:
        piece = found(search.piece())
        assert piece <= found(candidates(index, request))
        index.apply(list(index.nodes), drawn.nodes(drawn.random.randrange(4, 14)))


def test_a_limit_is_of_all_pieces_together() -> None:
    index = Index(map(host, range(6)), Random(0))
    assert len(candidates(index, Request(groups=CPU.groups, limit=4))) == 4
    assert len(candidates(index, CPU)) == 6
