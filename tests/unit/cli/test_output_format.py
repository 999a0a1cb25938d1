"""What commands write for scripts: values of columns, as the openstack client does, and JSON."""

import json
from typing import Any

import pytest

from whimbrel.cli.output_format import Output
from whimbrel.domain.errors import Invalid

LIST: dict[str, Any] = {
    "hosts": [
        {"host": "n1", "servers": 2, "reason": None, "nics": ["a"]},
        {"host": "n2", "servers": 0, "reason": "disk", "nics": []},
    ],
    "unreachable": [],
}


def written(capsys: pytest.CaptureFixture[str], answer: Any, name: str, **options: Any) -> str:
    assert Output(**options).wrote(answer, name)
    return capsys.readouterr().out


def test_a_list_is_a_line_for_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert written(capsys, LIST, "hosts", format="value", column=("host", "servers")) == "n1 2\nn2 0\n"
    assert written(capsys, LIST, "hosts", format="value") == 'n1 2 None ["a"]\nn2 0 disk []\n'


def test_an_object_is_a_line_for_each_column_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    one = {"host": LIST["hosts"][0]}
    assert written(capsys, one, "host", format="value", column=("servers", "host")) == "2\nn1\n"


def test_json_is_the_whole_answer_or_its_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(written(capsys, LIST, "hosts", json=True)) == LIST
    assert json.loads(written(capsys, LIST, "hosts", format="json", column=("host",))) == {
        "hosts": [{"host": "n1"}, {"host": "n2"}],
        "unreachable": [],
    }


def test_a_table_is_left_to_the_command() -> None:
    assert not Output().wrote(LIST, "hosts")
    with pytest.raises(Invalid, match="--column is for"):
        Output(column=("host",)).wrote(LIST, "hosts")


def test_an_unknown_column_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(Invalid, match="no column id: the columns are host, servers, reason, nics"):
        Output(format="value", column=("id",)).wrote(LIST, "hosts")
