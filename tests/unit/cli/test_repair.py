"""The plan of a repair, as the API of this release and of the last one answers it."""

from typing import Any

import msgspec
import pytest

from whimbrel.api.views.repairs import Repairs
from whimbrel.cli.repair import listing
from whimbrel.cli.terminal import console

DESTROY = {"kind": "destroy_guest", "sentence": "destroy the guest of server s on n3"}


def answer(**actions: Any) -> Repairs:
    found = {"subject": "s", "violations": [], "left": ["port p is missing: detach it"], **actions}
    return msgspec.convert({"repairs": [found], "holds": False, "unseen": []}, Repairs)


@pytest.mark.parametrize("names", [("actions", "mends"), ("mends",)], ids="+".join)
def test_the_actions_are_shown_whichever_name_they_have(names: tuple[str, ...]) -> None:
    found = answer(**{name: [DESTROY] for name in names})
    assert [action.kind for action in found.repairs[0].actions] == ["destroy_guest"]
    written = msgspec.to_builtins(found)["repairs"][0]
    assert written["actions"] == written["mends"] == [DESTROY]
    terminal = console()
    with terminal.capture() as shown:
        terminal.print(listing(found))
    assert DESTROY["sentence"] in shown.get()
    assert "port p is missing" in shown.get()
