"""Names of users and projects, with a played identity service: as far as it tells them, and never in the way."""

from typing import Any

import pytest

from whimbrel.cli.account_names import add_names
from whimbrel.domain.errors import NotFound, Refused, Unavailable

NAMES = {"/users/u1": {"user": {"name": "ada"}}, "/projects/p1": {"project": {"name": "engines"}}}


class PlayedIdentity:
    """Answers with these, or raises them; of others it says that they are gone."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self._answers = answers
        self.asked: list[str] = []

    def get(self, service: str, path: str) -> Any:
        assert service == "identity"
        self.asked.append(path)
        answer = self._answers.get(path, NotFound("gone"))
        if isinstance(answer, Exception):
            raise answer
        return answer


def named(api: Any, *entries: dict[str, Any]) -> list[tuple[str | None, str | None]]:
    add_names(api, entries)
    return [(entry["user_name"], entry["project_name"]) for entry in entries]


def test_who_is_known_has_a_name_and_each_is_asked_for_once() -> None:
    api = PlayedIdentity(NAMES)
    ours, theirs = {"user_id": "u1", "project_id": "p1"}, {"user_id": "u2", "project_id": "p1"}
    assert named(api, dict(ours), {"user_id": None, "project_id": None}, dict(theirs), dict(ours)) == [
        ("ada", "engines"), (None, None), (None, "engines"), ("ada", "engines"),
    ]  # fmt: skip
    assert sorted(api.asked) == ["/projects/p1", "/users/u1", "/users/u2"]


def test_an_id_is_asked_for_as_it_is() -> None:
    api = PlayedIdentity({})
    named(api, {"user_id": "a/b?c", "project_id": None})
    assert api.asked == ["/users/a%2Fb%3Fc"]


@pytest.mark.parametrize("answer", [Refused("no"), NotFound("no"), {"user": {}}, [], {"user": {"name": 7}}], ids=str)
def test_whom_nobody_names_stays_an_id(answer: Any) -> None:
    assert named(PlayedIdentity({**NAMES, "/users/u1": answer}), {"user_id": "u1", "project_id": "p1"}) == [
        (None, "engines")
    ]


def test_a_service_that_does_not_answer_is_not_asked_again() -> None:
    api = PlayedIdentity({"/users/u1": Unavailable("no answer")})
    entries = [{"user_id": f"u{n}", "project_id": f"p{n}"} for n in (1, 2)]
    assert named(api, *entries) == [(None, None)] * 2
    assert api.asked == ["/users/u1"]
