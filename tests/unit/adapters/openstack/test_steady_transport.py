"""Repetition after broken connections: of what only reads, as often as the settings say; and what is never repeated."""

import ssl

import httpx
import pytest

from whimbrel.adapters.openstack.steady_transport import SteadyTransport
from whimbrel.domain.errors import Unavailable


class Broken:
    """A service that drops the first connections."""

    def __init__(self, drops: int) -> None:
        self.drops = drops
        self.asked = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        if self.asked <= self.drops:
            raise httpx.RemoteProtocolError("closed", request=request)
        return httpx.Response(200)


def client(service: Broken, retries: int) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=SteadyTransport(False, retries, httpx.MockTransport(service)))


async def test_what_reads_is_repeated() -> None:
    service = Broken(2)
    assert (await client(service, 2).get("http://s/x")).status_code == 200
    assert service.asked == 3


async def test_not_more_often_than_the_settings_say() -> None:
    service = Broken(2)
    with pytest.raises(httpx.RemoteProtocolError):
        await client(service, 1).get("http://s/x")
    assert service.asked == 2


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_what_may_have_had_an_effect_is_not(method: str) -> None:
    service = Broken(1)
    with pytest.raises(httpx.RemoteProtocolError):
        await client(service, 3).request(method, "http://s/x")
    assert service.asked == 1


async def test_a_certificate_that_is_not_accepted_is_told_with_its_setting() -> None:
    def untrusted(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", request=request)

    transport = SteadyTransport(False, 1, httpx.MockTransport(untrusted))
    with pytest.raises(Unavailable, match=r"https://s:9292 is not accepted: .*CERTIFICATE.*'ca_file' in \[keystone\]"):
        await httpx.AsyncClient(transport=transport).get("https://s:9292/v2/images")


async def test_a_server_that_wants_a_certificate_is_told_with_the_settings() -> None:
    def wants_one(request: httpx.Request) -> httpx.Response:
        raise ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required")

    transport = SteadyTransport(False, 1, httpx.MockTransport(wants_one))
    with pytest.raises(Unavailable, match=r"https://s does not accept this client: .*'cert_file' and 'key_file'"):
        await httpx.AsyncClient(transport=transport).get("https://s/v2/images")


async def test_another_connection_that_fails_is_left_to_the_caller() -> None:
    def away(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    with pytest.raises(httpx.ConnectError):
        await httpx.AsyncClient(transport=SteadyTransport(False, 1, httpx.MockTransport(away))).get("https://s/")
