"""Schemas by version, and the formats and sentences that go with them."""

import pytest

from whimbrel.api.http.formats import FORMATS, matcher
from whimbrel.api.http.schema import Body, Query
from whimbrel.api.schemas.parameters import NAME, NUMBER, many, obj, single
from whimbrel.http.problem import Problem

BODY = Body({5: obj({"a": NAME}, ["a"]), 9: obj({"a": NAME, "b": NAME}), 12: None})
QUERY = Query(
    {1: {"limit": single(NUMBER)}, 7: {"limit": single(NUMBER), "tag": many(NAME)}},
    strict_from=10,
    patterns={"^_": single(NAME)},
)


def sentence(minor: int, body: object) -> str | None:
    try:
        BODY.check(minor, body)
    except Problem as problem:
        return problem.message
    return None


def test_the_schema_of_the_version_holds() -> None:
    assert sentence(4, "anything") is None
    assert sentence(5, {"a": "x"}) is None
    assert "'b' was unexpected" in (sentence(8, {"a": "x", "b": "y"}) or "")
    assert sentence(9, {"a": "x", "b": "y"}) is None
    assert sentence(12, {"c": 1}) is None


def test_a_sentence_names_the_part_and_stays_short() -> None:
    assert sentence(5, {}) == '"a" is a required property'
    wrong = sentence(5, {"a": " x"}) or ""
    assert wrong.startswith("Invalid input for field/attribute a. Value:  x. it must be printable")
    long = "x" * 256
    assert sentence(5, {"a": long}) == f"Invalid input for field/attribute a. Value: {long}. '{long}' is too long"
    assert len(sentence(5, {"a": "x" * 100_000}) or "") < 1000


def test_unknown_query_keys_are_dropped_and_later_refused() -> None:
    assert QUERY.read(1, {"limit": ["1"], "tag": ["x"], "_y": ["z"]}) == {"limit": ["1"], "_y": ["z"]}
    assert QUERY.read(7, {"tag": ["x", "y"]}) == {"tag": ["x", "y"]}
    for minor, sent in ((1, {"limit": ["x"]}), (1, {"limit": ["1", "2"]}), (10, {"other": ["1"]})):
        with pytest.raises(Problem):
            QUERY.read(minor, sent)


@pytest.mark.parametrize(
    ("form", "right", "wrong"),
    [
        ("name", ["a", "a b", "名前"], ["", " ", "a ", "\ta", "a\x00", "a\nb"]),
        ("any-uuid", ["33333333-3333-4333-8333-333333333333", "33333333333343338333333333333333"], ["", "x", "3"]),
        ("iso-time", ["2024-01-31", "2024-01-31T10:00:00Z", "2024-01-31T10:00:00+02:00"], ["", "now", "2024-13-01"]),
        ("base-64", ["", "aGk=", "aGk=\n", "aG-k="], ["a", "aGk"]),
        ("safe-pattern", ["^a.*$", "a|b"], ["", "(", "*", "(?=a)", r"(a)\1"]),
    ],
)
def test_formats(form: str, right: list[str], wrong: list[str]) -> None:
    assert [text for text in right if not FORMATS[form](text)] == []
    assert [text for text in wrong if FORMATS[form](text)] == []


def test_no_pattern_of_a_user_keeps_the_cloud_busy() -> None:
    assert not matcher("(a+)+$")("a" * 255 + "!")  # one that tries all ways would need longer than the sun has
