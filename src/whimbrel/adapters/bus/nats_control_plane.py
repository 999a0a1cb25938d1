"""What agents ask of the control plane, over NATS: `register.HOST` and the like.

Invariant: the host is that of the subject, which the asking key admits; no message names one. Unknown fields of a newer
agent are ignored, as are those of newer answers.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
from nats.aio.msg import Msg

from whimbrel.adapters.bus.compressed import compress, decompress
from whimbrel.adapters.bus.nats_answers import answer, answering, read_answer
from whimbrel.adapters.bus.nats_connection import BusConnection, NoResponders
from whimbrel.adapters.bus.nats_subjects import CONTROL_GROUP, CONTROL_SUBJECTS, host_of, token
from whimbrel.adapters.bus.remote_agent import TIMEOUT_S
from whimbrel.adapters.bus.verbs import CONTROL_VERBS, encode
from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.domain.host_description import HostDescription
from whimbrel.domain.host_networks import HostNetworks
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.domain.image_grant import ImageAccess
from whimbrel.ports.hosts.control_plane import (
    AgentHello,
    Beat,
    BeatAnswer,
    ControlPlane,
    ImageGrant,
    MetadataAnswer,
    Welcome,
)

WANTS_CLAIMS = "Wants-Claims"
CLAIMS = "Claims"
"""Headers: the agent's own claims end soon; new ones, in the answer."""

AGAIN_S = 2.5
"""After how long a question is asked again: the bus may have given it to a process that is stopped, and the servers
notice that late. Some times within the time for which an agent waits for the answer to a heartbeat."""


@dataclass(frozen=True)
class NatsControlPlane:
    """Implements ports.hosts.control_plane.ControlPlane for the agent of one host.

    again_s: after how long a question that may be answered twice is asked again. keep_claims: stores new claims of this
    agent's key (a JWT, see nats_keys). needs_claims: whether those that it has end soon. Both None: claims are not
    renewed.
    """

    bus: BusConnection
    timeout_s: float = TIMEOUT_S
    needs_claims: Callable[[], bool] | None = None
    keep_claims: Callable[[str], None] | None = None
    again_s: float = AGAIN_S

    async def register(self, host: HostName, hello: AgentHello) -> Welcome:
        welcome: Welcome = await self._ask(host, "register", hello, again=False)  # each answer begins a session
        return welcome

    async def beat(self, host: HostName, beat: Beat) -> BeatAnswer:
        beat_answer: BeatAnswer = await self._ask(host, "beat", beat)
        return beat_answer

    async def describe(self, host: HostName, session: int, description: HostDescription) -> None:
        await self._ask(host, "describe", session, description)

    async def image_grant(self, host: HostName, image_id: str, access: ImageAccess) -> ImageGrant:
        grant: ImageGrant = await self._ask(host, "image_grant", image_id, access)
        return grant

    async def guest_metadata(
        self, host: HostName, server: ServerId, path: str, method: str = "GET", body: bytes = b""
    ) -> MetadataAnswer:
        again = method == "GET"  # a password is accepted once
        metadata: MetadataAnswer = await self._ask(host, "guest_metadata", server, path, method, body, again=again)
        return metadata

    async def network_state(self, host: HostName, known: str) -> HostNetworks | None:
        state: HostNetworks | None = await self._ask(host, "network_state", known)
        return state

    async def _ask(self, host: HostName, name: str, *arguments: object, again: bool = True) -> Any:
        verb = CONTROL_VERBS[name]
        body, headers = compress(encode(verb.question(*arguments)))
        if self.needs_claims and self.needs_claims():
            headers = {**headers, WANTS_CLAIMS: "1"}
        subject = f"{CONTROL_SUBJECTS[name]}.{token(host)}"
        try:
            message = await self.bus.ask(subject, body, self.timeout_s, headers, self.again_s if again else None)
        except NoResponders:
            raise Unavailable("no process of the control plane is connected to the bus") from None
        if self.keep_claims and message.headers and CLAIMS in message.headers:
            self.keep_claims(message.headers[CLAIMS])
        return read_answer(verb, message, "the control plane", name)


NewClaims = Callable[[HostName], Awaitable[str]]
"""Returns new claims for the key with which a host has joined. Raises: Refused: it has none, or has been retired."""


@asynccontextmanager
async def serve_control(
    bus: BusConnection, control_plane: ControlPlane, new_claims: NewClaims | None = None
) -> AsyncIterator[None]:
    """Answer the agents of a cell while the context lasts. bus: of the cell's account.

    Of several processes each question reaches one. new_claims: None: claims are not renewed here.
    """

    async def heard(name: str, message: Msg) -> None:
        headers: dict[str, str] = {}
        start(answer(bus, message, _asked(control_plane, name, message, new_claims, headers), headers))

    async with AsyncExitStack() as stack:
        start = await stack.enter_async_context(answering())
        for name, first in CONTROL_SUBJECTS.items():
            await stack.enter_async_context(bus.listen(f"{first}.*", partial(heard, name), CONTROL_GROUP))
        yield


async def _asked(
    control_plane: ControlPlane, name: str, message: Msg, new_claims: NewClaims | None, headers: dict[str, str]
) -> object:
    host = host_of(message.subject)
    try:
        question = CONTROL_VERBS[name].decode_question(decompress(message.data, message.headers))
    except msgspec.DecodeError as error:
        raise Refused(f"the control plane does not understand {name} of host {host}: {error}") from None
    result: object = await getattr(control_plane, name)(host, **msgspec.structs.asdict(question))
    if new_claims and message.headers and WANTS_CLAIMS in message.headers:
        headers[CLAIMS] = await new_claims(host)
    return result
