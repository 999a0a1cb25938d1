"""What is of NATS in the way to the control plane: names in subjects, absent processes, and the renewal of claims."""

import pytest

from tests.nats_servers import CloudBus
from tests.unit.hosts.descriptions import NEW, description
from whimbrel.adapters.bus.nats_control_plane import NatsControlPlane, serve_control
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.host_description import HostDescription
from whimbrel.domain.ids import HostName
from whimbrel.domain.image_grant import ImageAccess
from whimbrel.ports.hosts.control_plane import AgentHello, Beat, BeatAnswer, ImageGrant, Welcome

HELLO = AgentHello(release="1.2.3", verbs={}, description=description())


class Named:
    """Implements ports.hosts.control_plane.ControlPlane: it keeps which hosts asked."""

    def __init__(self) -> None:
        self.hosts: list[HostName] = []

    async def register(self, host: HostName, hello: AgentHello) -> Welcome:
        self.hosts.append(host)
        return Welcome(session=1, incarnation=1)

    async def beat(self, host: HostName, beat: Beat) -> BeatAnswer:
        self.hosts.append(host)
        return BeatAnswer(session=1)

    async def describe(self, host: HostName, session: int, description: HostDescription) -> None:
        self.hosts.append(host)

    async def image_grant(self, host: HostName, image_id: str, access: ImageAccess) -> ImageGrant:
        self.hosts.append(host)
        return ImageGrant(url="http://images.test", token=access, expires_at=5.0)


@pytest.mark.parametrize("name", ["n17", "rack-1.n17", "n 17 *>%2E é", "*", ">"])
async def test_a_host_may_have_any_name(bus: CloudBus, name: str) -> None:
    host, there = HostName(name), Named()
    async with bus.cell() as process, await bus.agent(host) as agent:
        await process.connected()
        async with serve_control(process, there):
            control = NatsControlPlane(agent)
            await control.register(host, HELLO)
            await control.beat(host, Beat(session=1, digest="", answers=True))
            await control.describe(host, 1, description())
            await control.image_grant(host, "image", "read")
    assert there.hosts == [host] * 4


async def test_without_a_process_that_answers_it_is_unavailable_at_once(bus: CloudBus) -> None:
    async with await bus.agent(NEW) as agent:
        with pytest.raises(Unavailable, match="no process of the control plane"):
            await NatsControlPlane(agent, timeout_s=3600.0).register(NEW, HELLO)


async def test_claims_are_renewed_with_an_answer(bus: CloudBus) -> None:
    kept: list[str] = []

    async def new_claims(host: HostName) -> str:
        return f"claims of {host}"

    async with bus.cell() as process, await bus.agent(NEW) as agent:
        await process.connected()
        async with serve_control(process, Named(), new_claims):
            await NatsControlPlane(agent, needs_claims=lambda: False, keep_claims=kept.append).register(NEW, HELLO)
            assert kept == []
            await NatsControlPlane(agent, needs_claims=lambda: True, keep_claims=kept.append).register(NEW, HELLO)
    assert kept == [f"claims of {NEW}"]
