"""When a value fulfils an extra spec, by operator."""

import pytest

from tests.unit.scheduling.passing import flavored
from whimbrel.scheduling.requirements.extra_specs import fulfils, specs_in


@pytest.mark.parametrize(
    ("wanted", "good", "bad"),
    [
        ("ssd", ["ssd"], ["SSD", "ssd ", ""]),
        ("two words", ["two words"], ["two"]),
        ("", [""], ["x"]),
        ("= 5", ["5", "5.5"], ["4.9", "", "five"]),
        (">= 5", ["5", "6"], ["4", "five"]),
        ("== 5", ["5", "5.0"], ["6", "five"]),
        ("!= 5", ["4"], ["5.0", "five"]),
        ("<= 5", ["5", "-1"], ["5.1", "five"]),
        ("== five", [], ["5", "five"]),
        ("s== 5", ["5"], ["5.0"]),
        ("s!= 5", ["5.0"], ["5"]),
        ("s>= b", ["b", "c"], ["a"]),
        ("s> b", ["c", "ba"], ["b"]),
        ("s<= b", ["b", "a"], ["c"]),
        ("s< b", ["a"], ["b"]),
        ("<in> vm", ["vmx", "['svm']"], ["vnx"]),
        ("<all-in> aes vmx", ["['vmx', 'aes']"], ["['vmx']", ""]),
        ("<or> a <or> b", ["a", "b"], ["<or>", "c", "a <or> b"]),
        ("<or> a", ["a"], ["b"]),
        (">=", [], ["5", ">="]),
        ("<or>", [], ["", "<or>"]),
        ("> 5", ["> 5"], ["6"]),  # no operator of Nova's: the very words
    ],
)
def test_a_request_is_fulfilled_by(wanted: str, good: list[str], bad: list[str]) -> None:
    assert [value for value in good if not fulfils(value, wanted)] == []
    assert [value for value in bad if fulfils(value, wanted)] == []


def test_a_scope_has_its_specs_and_those_without_any() -> None:
    flavor = flavored(a="1", this__b="2", other__c="3", this__d__e="4")
    assert [spec.name for spec in specs_in("this", flavor)] == ["a", "b", "d:e"]
    assert [spec.key for spec in specs_in("this", flavor)] == ["a", "this:b", "this:d:e"]
    assert list(specs_in("this", None)) == []
