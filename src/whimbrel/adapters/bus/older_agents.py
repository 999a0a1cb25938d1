"""Keeps questions that an agent does not understand from being sent: an agent may be of an older release.

Only verbs and arguments of the table `ADDED` are looked up; an argument that has its default is not sent.
"""

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from typing import Any, cast

from whimbrel.adapters.bus.verbs import ADDED, VERBS
from whimbrel.domain.errors import Refused
from whimbrel.domain.ids import HostName
from whimbrel.ports.hosts.agent import Agent, Agents
from whimbrel.ports.stores.hosts import AgentInfo

KnownAgents = Callable[[], Awaitable[Mapping[HostName, AgentInfo]]]


class ReleaseCheckedAgents:
    """Implements ports.hosts.agent.Agents. An agent of which nothing is known is in this process, and is asked."""

    def __init__(self, agents: Agents, known: KnownAgents, added: Mapping[str, Collection[str]] = ADDED) -> None:
        """added: verb -> its new arguments, as `ADDED`."""
        self._agents = agents
        self._known = known
        self._added = added

    def at(self, host: HostName) -> Agent:
        agent = self._agents.at(host)
        return cast(Agent, _ReleaseCheckedAgent(agent, host, self._known, self._added)) if self._added else agent


class _ReleaseCheckedAgent:
    def __init__(self, agent: Agent, host: HostName, known: KnownAgents, added: Mapping[str, Collection[str]]) -> None:
        self._agent = agent
        self._host = host
        self._known = known
        self._added = added

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        method: Callable[..., Awaitable[Any]] = getattr(self._agent, verb)
        if verb not in self._added:
            return method

        async def call(*arguments: Any, **named: Any) -> Any:
            question = VERBS[verb].question(*arguments, **named)
            await self._check(verb, [name for name in self._added[verb] if _is_sent(question, name)])
            return await method(*arguments, **named)

        return call

    async def _check(self, verb: str, arguments: Collection[str]) -> None:
        """Raises: Refused: the agent lacks the verb or one of these arguments."""
        if self._added[verb] and not arguments:
            return
        info = (await self._known()).get(self._host)
        if info is None or not info.verbs:
            return
        for what in _missing(verb, arguments, info):
            raise Refused(
                f"the agent of host {self._host} is of release {info.release}, which does not know {what}: upgrade it"
            )


def _is_sent(question: Any, name: str) -> bool:
    defaults = dict(zip(reversed(question.__struct_fields__), reversed(question.__struct_defaults__), strict=False))
    return bool(getattr(question, name) != defaults.get(name))


def _missing(verb: str, arguments: Collection[str], info: AgentInfo) -> Iterator[str]:
    if verb not in info.verbs:
        yield f"the order {verb!r}"
    else:
        yield from (f"the argument {each!r} of {verb}" for each in arguments if each not in info.verbs[verb])
