"""What a network service lacks is believed only while it takes the cloud for an administrator."""

from collections.abc import Mapping
from typing import Any

import pytest

from whimbrel.adapters.openstack.administrators_view import OF_ADMINISTRATORS, AdministratorsView
from whimbrel.adapters.openstack.service_client import Answer, Query
from whimbrel.domain.errors import Unavailable

PORTS = b'{"ports": [{"id": "p", "binding:host_id": "n1"}]}'
NONE = Answer(status=200, content=b'{"ports": []}')
ABSENT = Answer(status=404, content=b'{"NeutronError": {"type": "PortNotFound"}}')


class StartingNeutron:
    """Implements Service. It hides what is of other projects until it has answered so many requests."""

    def __init__(self, hidden_for: int, there: Answer) -> None:
        self._hidden_for = hidden_for
        self._there = there
        self.asked: list[str] = []

    async def ask(
        self, method: str, path: str, *, query: Query = (), body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        self.asked.append(path)
        is_hidden = len(self.asked) <= self._hidden_for
        if path == OF_ADMINISTRATORS:
            return Answer(status=403 if is_hidden else 200, content=b"{}")
        return (NONE if path == "/v2.0/ports" else ABSENT) if is_hidden else self._there


@pytest.mark.parametrize("path", ["/v2.0/ports", "/v2.0/ports/p"])
async def test_what_is_hidden_after_a_start_is_not_taken_for_absent(path: str) -> None:
    there = Answer(status=200, content=PORTS)
    with pytest.raises(Unavailable, match="as if this cloud were no administrator"):
        await AdministratorsView(StartingNeutron(2, there)).ask("GET", path)
    assert await AdministratorsView(StartingNeutron(1, there)).ask("GET", path) == there


@pytest.mark.parametrize(
    ("method", "path", "absent"), [("GET", "/v2.0/ports", NONE), ("DELETE", "/v2.0/ports/p", ABSENT)]
)
async def test_what_an_administrator_does_not_see_is_absent(method: str, path: str, absent: Answer) -> None:
    assert await AdministratorsView(StartingNeutron(0, absent)).ask(method, path) == absent


async def test_what_is_there_costs_one_request() -> None:
    neutron = StartingNeutron(0, Answer(status=200, content=PORTS))
    await AdministratorsView(neutron).ask("GET", "/v2.0/ports")
    assert neutron.asked == ["/v2.0/ports"]
