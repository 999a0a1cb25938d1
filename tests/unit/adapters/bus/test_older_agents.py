"""A host whose agent is of an older release is not asked what it does not understand, and another one is chosen."""

import pytest

from tests.host_room import H1, Room, order, spec
from whimbrel.adapters.bus.local import LocalAgents
from whimbrel.adapters.bus.older_agents import ReleaseCheckedAgents
from whimbrel.domain.errors import Refused
from whimbrel.domain.ids import HostName
from whimbrel.ports.stores.hosts import AgentInfo

KEY = spec().key
OLDER = AgentInfo(release="0.2.0", verbs={"prepare": ("order", "spec"), "export_disk": ("order", "key")})
CURRENT = AgentInfo(release="0.3.0", verbs={"export_disk": ("order", "key", "disk"), "ledger": ("newest",)})
ADDED = {"export_disk": ("disk",), "ledger": ()}


class Known:
    def __init__(self, *infos: tuple[HostName, AgentInfo]) -> None:
        self.infos = dict(infos)
        self.reads = 0

    async def __call__(self) -> dict[HostName, AgentInfo]:
        self.reads += 1
        return self.infos


def agents(known: Known) -> ReleaseCheckedAgents:
    return ReleaseCheckedAgents(LocalAgents(Room().agents), known, ADDED)


async def test_an_older_agent_is_not_asked_what_is_new() -> None:
    older = agents(Known((H1, OLDER))).at(H1)
    with pytest.raises(Refused, match=r"h1 is of release .*, which does not know the argument 'disk' of export_disk"):
        await older.export_disk(order(), KEY, "ephemeral")
    with pytest.raises(Refused, match="does not know the order 'ledger': upgrade it"):
        await older.ledger()


async def test_a_default_is_not_new() -> None:
    """It is not sent; the agent does what it always did."""
    known = Known((H1, OLDER))
    agent = agents(known).at(H1)
    await agent.prepare(order(), spec())
    with pytest.raises(Refused) as refused:
        await agent.export_disk(order(), KEY, "root")
    assert "release" not in refused.value.reason, "its own answer: there is no disk yet"
    assert known.reads == 0


@pytest.mark.parametrize(
    "known", [Known((H1, CURRENT)), Known((H1, AgentInfo())), Known()], ids=["new", "here", "unknown"]
)
async def test_other_agents_are_asked(known: Known) -> None:
    assert (await agents(known).at(H1).ledger()).entries == ()
    assert known.reads == 1
