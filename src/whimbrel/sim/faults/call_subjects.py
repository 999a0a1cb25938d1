"""Find the server that a call is about, as far as its arguments identify it."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from whimbrel.domain.guest import GuestKey, GuestSpec, Order
from whimbrel.domain.ids import ServerId
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.ports.services.network import Port
from whimbrel.ports.services.volumes import Attachment


class Subjects:
    """Map of runs, ports and attachments to their servers, learned from calls and answers."""

    def __init__(self) -> None:
        self._of: dict[str, ServerId] = {}

    def of(self, call: Any) -> ServerId | None:
        """Return the server of a call, or None if it is unknown. call: a port's method, as `partial`."""
        return self.among((*call.args, *call.keywords.values())) if isinstance(call, partial) else None

    def among(self, arguments: Iterable[Any]) -> ServerId | None:
        """Return the server of the first argument that identifies one."""
        return next((found for one in arguments if (found := self._named(one))), None)

    def learn(self, answer: Any) -> None:
        match answer:
            case list() if answer and isinstance(answer[0], Port | Attachment):
                for one in answer:
                    self.learn(one)
            case Port() if answer.device_id:
                self._of[answer.id] = ServerId(answer.device_id)
            case Attachment():
                self._of[answer.id] = answer.server

    def _named(self, argument: Any) -> ServerId | None:
        match argument:
            case str():
                return self._of.get(argument)
            case Order():
                return self._of.get(argument.run)
            case Run():
                self._of[argument.id] = self._of[argument.subject] = argument.subject
                return argument.subject
            case GuestKey():
                return argument.server
            case GuestSpec():
                return argument.key.server
            case Server():
                return argument.id
            case Port():
                self.learn(argument)
                return self._of.get(argument.id)
        return None
