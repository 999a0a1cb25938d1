"""What is of NATS in the way to the control plane: names in subjects, absent processes, and the renewal of claims."""

from contextlib import suppress

import pytest
from nats.aio.msg import Msg

from tests.nats_servers import C1, CloudBus
from tests.unit.hosts.descriptions import NEW, description
from whimbrel.adapters.bus.account_keys import agent_logins, key_of
from whimbrel.adapters.bus.nats_connection import BusConnection
from whimbrel.adapters.bus.nats_control_plane import NatsControlPlane, serve_control
from whimbrel.adapters.bus.nats_keys import new_key, read_claims, user_jwt
from whimbrel.adapters.bus.nats_subjects import CONTROL_GROUP, admits_agent, cell_account, of_agent
from whimbrel.adapters.clock import SystemClock
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.host_description import HostDescription
from whimbrel.domain.host_networks import HostNetworks
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.domain.image_grant import ImageAccess
from whimbrel.ports.hosts.control_plane import AgentHello, Beat, BeatAnswer, ImageGrant, MetadataAnswer, Welcome

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

    async def guest_metadata(
        self, host: HostName, server: ServerId, path: str, method: str = "GET", body: bytes = b""
    ) -> MetadataAnswer:
        self.hosts.append(host)
        return MetadataAnswer(status=200)

    async def network_state(self, host: HostName, known: str) -> HostNetworks | None:
        self.hosts.append(host)
        return HostNetworks()


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
            await control.guest_metadata(host, ServerId("server"), "/")
            await control.network_state(host, "")
    assert there.hosts == [host] * 6


async def test_a_question_to_a_process_that_is_stopped_is_asked_again(bus: CloudBus) -> None:
    """The bus has not noticed it yet, and gives it a share of the questions."""
    there, kept = Named(), list[Msg]()

    async def keep(message: Msg) -> None:
        kept.append(message)

    async with bus.cell() as stopped, bus.cell() as process, await bus.agent(NEW) as agent:
        await stopped.connected()
        await process.connected()
        async with stopped.listen(f"beat.{NEW}", keep, CONTROL_GROUP), serve_control(process, there):
            control = NatsControlPlane(agent, again_s=0.01)
            while not kept or not there.hosts:
                assert (await control.beat(NEW, Beat(session=1, digest="", answers=True))).session == 1


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


async def test_claims_of_an_older_release_are_replaced_and_used_at_once(bus: CloudBus) -> None:
    """They do not admit a host for what was added since: without a new login that would have no answer."""
    key, may = new_key("user"), of_agent(NEW)
    older = may._replace(publish=[subject for subject in may.publish if not subject.startswith("networks.")])
    signer = key_of(await bus.keys.account(cell_account(C1)))
    claims = [user_jwt(signer, "older", key.public, SystemClock().now(), 1000.0, older)]
    agent = BusConnection(bus.settings, agent_logins(NEW, lambda: key.seed, lambda: claims[-1]), "agent")

    async def new_claims(host: HostName) -> str:
        return await bus.keys.agent_claims(C1, host, key.public)

    def keep(jwt: str) -> None:
        claims.append(jwt)
        agent.reconnect()

    def needs() -> bool:
        return not admits_agent(read_claims(claims[-1]).nats, NEW)

    async with bus.cell() as process, agent:
        await process.connected()
        async with serve_control(process, Named(), new_claims):
            control = NatsControlPlane(agent, needs_claims=needs, keep_claims=keep)
            await control.register(NEW, HELLO)
            with suppress(Unavailable):  # asked by the old connection
                await control.network_state(NEW, "")
            assert await control.network_state(NEW, "") == HostNetworks()
    assert len(claims) == 2
