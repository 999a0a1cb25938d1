"""Fields that a type does not declare are found wherever they are in a document."""

from typing import Any, Literal

import msgspec
import pytest

from whimbrel.adapters.bus.verbs import VERBS
from whimbrel.adapters.unknown_fields import unknown_field, with_unknown
from whimbrel.conductor.saga_registry import SAGAS


class Leaf(msgspec.Struct):
    size: int = 0


class Red(msgspec.Struct, tag="red", tag_field="colour"):
    leaf: Leaf


class Blue(msgspec.Struct, tag="blue", tag_field="colour"):
    leaf: Leaf


class Tree(msgspec.Struct, rename={"renamed": "called"}):
    leaf: Leaf | None = None
    leaves: tuple[Leaf, ...] = ()
    listed: list[Leaf] | None = None
    named: dict[str, Leaf] = {}
    pair: tuple[int, Leaf] | None = None
    either: Red | Blue | None = None
    free: dict[str, Any] = {}
    anything: Any = None
    word: Literal["a", "b"] | None = None
    branches: "list[Tree]" = []
    renamed: int = 0


WHOLE = (
    '{"leaf":{"size":1},"leaves":[{"size":1}],"listed":[{"size":1}],"named":{"n":{"size":1}},"pair":[1,{"size":1}],'
    '"either":{"colour":"blue","leaf":{"size":1}},"free":{"x":{"y":1}},"anything":{"x":1},"word":"a",'
    '"branches":[{"leaf":{"size":1},"called":2}],"called":1}'
)


def test_a_document_of_declared_fields_has_no_unknown_one() -> None:
    for document in (WHOLE, "{}", '{"leaf":null,"pair":null}'):
        msgspec.json.decode(document, type=Tree)
        assert unknown_field(document.encode(), Tree) is None


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ('{"new":null}', "new"),
        ('{"renamed":1}', "renamed"),
        ('{"leaf":{"new":1}}', "leaf.new"),
        ('{"leaves":[{},{"new":1}]}', "leaves[].new"),
        ('{"listed":[{"new":1}]}', "listed[].new"),
        ('{"named":{"n":{"new":1}}}', "named.n.new"),
        ('{"pair":[1,{"new":1}]}', "pair[1].new"),
        ('{"either":{"colour":"red","leaf":{"new":1}}}', "either.leaf.new"),
        ('{"branches":[{"branches":[{"leaf":{"new":1}}]}]}', "branches[].branches[].leaf.new"),
    ],
)
def test_an_unknown_field_is_named(document: str, field: str) -> None:
    msgspec.json.decode(document, type=Tree)
    assert unknown_field(document.encode(), Tree) == field


class Part(msgspec.Struct, omit_defaults=True):
    size: int = 0
    volume_id: str | None = None


class Whole(msgspec.Struct, omit_defaults=True):
    part: Part | None = None
    parts: tuple[Part, ...] = ()
    named: dict[str, Part] = {}


@pytest.mark.parametrize(
    ("was", "now", "kept"),
    [
        ('{"new":1}', "{}", '{"new":1}'),
        ('{"new":1,"part":{"new":2}}', '{"part":{}}', '{"part":{"new":2},"new":1}'),
        ('{"part":{"size":1,"new":2}}', '{"part":{"size":1}}', '{"part":{"size":1,"new":2}}'),
        # Another object: nothing of the old one is in it.
        ('{"part":{"size":1,"new":2}}', '{"part":{"size":3}}', '{"part":{"size":3}}'),
        ('{"part":{"size":1,"new":2}}', "{}", "{}"),
        ('{"part":{"volume_id":"a","new":2}}', '{"part":{"volume_id":"b"}}', '{"part":{"volume_id":"b"}}'),
        # The same object, changed.
        (
            '{"part":{"volume_id":"a","new":2}}',
            '{"part":{"size":1,"volume_id":"a"}}',
            '{"part":{"size":1,"volume_id":"a","new":2}}',
        ),
        # The same objects at other places of a list.
        (
            '{"parts":[{"volume_id":"a","new":1},{"volume_id":"b","new":2}]}',
            '{"parts":[{"volume_id":"b"},{"volume_id":"c"}]}',
            '{"parts":[{"volume_id":"b","new":2},{"volume_id":"c"}]}',
        ),
        ('{"named":{"n":{"size":1,"new":2}}}', '{"named":{"n":{"size":1}}}', '{"named":{"n":{"size":1,"new":2}}}'),
        # A program that knows the field has written it since.
        ('{"part":{"size":1}}', '{"part":{"size":2}}', '{"part":{"size":2}}'),
    ],
)
def test_unknown_fields_are_kept_with_the_objects_that_had_them(was: str, now: str, kept: str) -> None:
    for document in (was, now):
        msgspec.json.decode(document, type=Whole)
    assert with_unknown(now.encode(), Whole, was.encode()).decode() == kept


def test_all_that_is_checked_can_be_searched() -> None:
    """What is read back from the journal, and what agents are asked."""
    kinds = [saga.facts for saga in SAGAS] + [verb.question for verb in VERBS.values()]
    assert len(kinds) > 20
    for kind in kinds:
        assert unknown_field(b'{"no such field":1}', kind) == "no such field"
