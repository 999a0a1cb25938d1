"""What was released: lists of steps, facts, and verbs of agents, as text. `python -m tools.released` adds what is new.

A run continues on the list on which it began, in processes of several releases, and hosts are upgraded one by one. So
a released list keeps its steps, their order, undos and conditions; facts and verbs keep the types of their fields. What
belongs to the release in development (the version in pyproject.toml) is written anew; the rest is never changed.
"""

import json
import tomllib
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from tools.document_fields import fields_of
from whimbrel.adapters.bus.verbs import VERBS
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.ports.hosts.agent import Agent
from whimbrel.saga.step import Saga, SagaRegistry, Step

ROOT = Path(__file__).parent.parent
LISTS = ROOT / "tests" / "unit" / "saga" / "released_lists.json"
VERBS_FILE = ROOT / "tests" / "unit" / "adapters" / "bus" / "released_verbs.json"

FLAGS = ("accepted", "in_request", "in_turn", "unlocks", "parks")


def release() -> str:
    """Return the release in development."""
    found: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return found


def lists_of(registry: SagaRegistry) -> dict[str, Any]:
    """Return "name version" -> the list as text."""
    return {f"{saga.name} {saga.version}": described(saga) for saga in registry}


def described(saga: Saga) -> dict[str, Any]:
    return {
        "facts": saga.facts.__name__,
        "ends": [saga.done_status, saga.undone_status, saga.reverted_status],
        "undoable": [_line(step) for step in saga.undoable],
        "forward_only": [_line(step) for step in saga.forward_only],
    }


def _line(step: Step) -> str:
    functions = {"undo": step.undo, "only_if": step.only_if, "again": step.again}
    words = [step.name, *(f"{name}={function.__name__}" for name, function in functions.items() if function)]
    words += [f"after={','.join(sorted(other.__name__ for other in step.after))}"] if step.after else []
    words += [name for name in FLAGS if getattr(step, name)]
    return " ".join(words)


def facts_of(registry: SagaRegistry) -> dict[str, dict[str, str]]:
    """Return type of facts -> field -> its type, as in their JSON documents."""
    kinds = sorted({saga.facts for saga in registry}, key=lambda kind: kind.__name__)
    return {kind.__name__: fields_of(kind) for kind in kinds}


def verbs() -> dict[str, dict[str, str]]:
    """Return verb -> argument, or field of one, -> its type; "-> field" is of the answer."""
    return {name: _fields_of_verb(name) for name in sorted(VERBS)}


def _fields_of_verb(name: str) -> dict[str, str]:
    answer = get_type_hints(getattr(Agent, name))["return"]
    boxed = msgspec.defstruct("Answer", [("answer", answer)])
    return fields_of(VERBS[name].question) | {f"-> {field}": kind for field, kind in fields_of(boxed).items()}


def with_lists(released: dict[str, Any], now: str) -> dict[str, Any]:
    """Return the file of lists with what this release adds."""
    lists = dict(released["lists"])
    for name, current in lists_of(SAGAS).items():
        since = lists[name]["since"] if name in lists else now
        if since == now:
            lists[name] = {"since": now} | current
    facts = facts_of(SAGAS)
    for name, fields in released["facts"].items():
        _check_defaults(name, fields, facts[name])
        facts[name] |= fields
    return {"lists": dict(sorted(lists.items())), "facts": facts}


def _check_defaults(name: str, released: dict[str, str], now: dict[str, str]) -> None:
    """Refuse a new field that documents of older programs lack. A new object may have such fields."""
    whole = {field for field in now if "." not in field or field.rpartition(".")[0].rstrip("[]{}") in released}
    if missing := [field for field in sorted(whole) if field not in released and " = " not in now[field]]:
        raise SystemExit(f"{name}: {', '.join(missing)}: a new field without a default")


def main() -> None:
    now = release()
    lists = json.loads(LISTS.read_text()) if LISTS.exists() else {"lists": {}, "facts": {}}
    LISTS.write_text(_text(with_lists(lists, now)))
    by_release = json.loads(VERBS_FILE.read_text()) if VERBS_FILE.exists() else {}
    VERBS_FILE.write_text(_text(by_release | {now: verbs()}))


def _text(document: Any) -> str:
    return json.dumps(document, indent=1) + "\n"


if __name__ == "__main__":
    main()
