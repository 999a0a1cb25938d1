"""Whatever is sent, it is never our bug: requests made up from the API's own OpenAPI document find no 5xx."""

from zlib import crc32

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode

from tests.api.standing import Standing, copied
from whimbrel.api.http.openapi import document
from whimbrel.api.routes import ROUTES

URL = "http://cloud:8774/compute/v2.1"
SCHEMA = schemathesis.openapi.from_dict(document(ROUTES))
OPERATIONS = {operation.label: operation for operation in (found.ok() for found in SCHEMA.get_all_operations())}

QUIET = settings(
    max_examples=6,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)


UNDECLARED = {405, 406}
"""What is answered to another method, and to another version: it stands beside all operations."""


standing = pytest.fixture(copied)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["fitting", "unfitting"])
@pytest.mark.parametrize("label", sorted(OPERATIONS))
def test_nothing_that_is_sent_is_our_bug(standing: Standing, label: str, mode: GenerationMode) -> None:
    operation = OPERATIONS[label]
    declared = {int(code) for code in operation.definition.raw["responses"]} | UNDECLARED

    @QUIET
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case: schemathesis.Case) -> None:
        lead_somewhere(case, standing.known)
        for who in ("member", "admin"):
            request = request_of(standing.client, case, who)
            if request is None:
                return
            answer = standing.loop.run_until_complete(standing.client.send(request))
            told = f"{who} {request.method} {request.url} {request.content!r}: {answer.status_code} {answer.text}"
            assert answer.status_code < 500, told
            assert answer.status_code in declared, told
            assert answer.status_code < 400 or is_a_fault(answer), told

    send()


def lead_somewhere(case: schemathesis.Case, known: dict[str, list[str]]) -> None:
    """Use existing ids in half of the requests."""
    number = crc32(repr((case.path_parameters, case.body, case.query)).encode("utf-8", "replace"))
    if number % 2:
        for name, values in known.items():
            if name in case.path_parameters:
                case.path_parameters[name] = values[number // 2 % len(values)]


def request_of(client: httpx.AsyncClient, case: schemathesis.Case, who: str) -> httpx.Request | None:
    """Make the request that a case means; None: no client can send it."""
    sent = case.as_transport_kwargs(base_url=URL)
    headers = {**(sent.get("headers") or {}), "X-Auth-Token": who}
    raw = {name: str(value).encode("utf-8", "replace") for name, value in headers.items()}
    try:
        return client.build_request(
            sent["method"], sent["url"], params=sent.get("params"), json=sent.get("json"), headers=raw
        )
    except (httpx.InvalidURL, UnicodeError):
        return None


def is_a_fault(answer: httpx.Response) -> bool:
    """Check whether it has Nova's shape; what does not begin with our path is not for us to answer."""
    if not answer.url.path.startswith("/compute/"):
        return True
    [fault] = answer.json().values()
    return bool(fault["code"] == answer.status_code and fault["message"])
