"""All routes of Nova: the table of what becomes of them says the truth."""

from typing import Any

import pytest

from tests.api.front import Front
from tools.api_table import NOVA, Line, document, nova_routes, table
from whimbrel.api.http.microversions import FIRST, LAST

OURS = ("The resource could not be found.", "does not have this.")
"""The sentences of a 404 that no handler has written."""

LINES = table()


async def answer_to(front: Front, line: Line, minor: int) -> Any:
    nova = line.nova
    path = nova.path.replace("{", "").replace("}", "").replace("//", "/")
    body = {nova.action: {}} if nova.action else {} if nova.method in ("POST", "PUT") else None
    return await front.ask(nova.method, path, body, who="admin", minor=minor)


def is_nowhere(answer: Any) -> bool:
    if answer.status_code not in (400, 404):
        return False
    message = answer.json()[next(iter(answer.json()))]["message"]
    return message.endswith(OURS) or message.startswith("There is no such action")


async def test_what_the_table_says_is_so(front: Front) -> None:
    for line in (line for line in LINES if line.nova.path not in ("/", "/versions/{id}")):
        for minor in sorted({line.nova.since, line.nova.until}):
            answer = await answer_to(front, line, minor)
            said = f"{line.state}: {line.nova} at 2.{minor}: {answer.status_code} {answer.text}"
            assert is_nowhere(answer) == (minor in line.absent), said
            if line.state == "refused":
                assert answer.status_code == line.routes[0].refuses, said


async def test_other_microversions_have_it_not(front: Front) -> None:
    for line in LINES:
        if line.state in ("served", "in part") and line.nova.path not in ("/", "/versions/{id}"):
            for minor in {max(line.nova.since - 1, FIRST), min(line.nova.until + 1, LAST)} - set(line.nova.minors):
                answer = await answer_to(front, line, minor)
                assert answer.status_code == 404, f"{line.nova} at 2.{minor}: {answer.status_code} {answer.text}"


async def test_the_documents_are_there(front: Front) -> None:
    for path in ("/compute/v2.1/", "/compute/v2.1/versions/v2.1", "/compute/v2.1/versions/v2.0"):
        assert (await front.raw("GET", path)).status_code == 200
    assert (await front.ask("GET", "/versions/v3")).status_code == 404


def test_no_route_is_listed_twice() -> None:
    keys = [(*nova.key, nova.path if nova.method == "GET" else "") for nova in nova_routes()]
    assert len(set(keys)) == len(keys)


@pytest.mark.long
def test_the_page_is_current() -> None:
    page = NOVA.parents[1] / "docs" / "generated" / "api.md"
    assert page.read_text() == document(LINES), "routes have changed: say `make docs`"
