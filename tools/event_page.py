"""The page of events, from the code: notifications, events of instance actions, and entries of the log."""

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.notifications.announced_steps import ANNOUNCED, OF_ACTIONS, Announced, Event
from whimbrel.notifications.changed_objects import KINDS

SOURCE = Path(__file__).parents[1] / "src" / "whimbrel"
LEVELS = ("debug", "info", "warning", "error", "exception", "critical")

HEAD = """\
# Events

"""
NOTIFICATIONS = """\
## Notifications

Nova's versioned notifications, as [the page about them](../notifications.md) says; off by default. The publisher is
the compute service of the source or the target, the API or the conductor.

| notification | publisher | runs | sent |
|---|---|---|---|
"""
OBJECTS = """
Changes of {kinds} are announced when a reconciler sees them: {names}, with the payloads {payloads}.

"""
ACTIONS = """\
## Events of instance actions

What `openstack server event show` lists of an action, with Nova's names. The journal derives them from the steps of
runs; the steps that have none are in `whimbrel move show` and `whimbrel server history` only.

| event | steps |
|---|---|
"""
LOG = """\
## Log

An entry of the log is an event with fields, on standard error: `timestamp [level] event field=value ...`. Every
entry of a run has its id as `run`. Left out here: entries whose event is the text of an error.

| event | level | fields | module |
|---|---|---|---|
"""


class LogEvent(NamedTuple):
    event: str
    level: str
    fields: tuple[str, ...]
    module: str


def events() -> str:
    kinds = OBJECTS.format(
        kinds=", ".join(kind.name.replace("_", " ") + "s" for kind in KINDS),
        names=", ".join(f"`{kind.name}.*`" for kind in KINDS),
        payloads=", ".join(f"`{kind.payload}`" for kind in KINDS),
    )
    parts = (HEAD, NOTIFICATIONS, *_lines(_notifications()), kinds, ACTIONS, *_lines(_action_events()))
    return "".join((*parts, "\n", LOG, *_lines(_log_rows())))


def _lines(rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n"


# Notifications


def _notifications() -> Iterator[tuple[str, ...]]:
    found: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for saga, announced in ANNOUNCED.items():
        for event, when in _of_saga(announced):
            found[event.name, event.by][when].append(saga)
    for name, event in OF_ACTIONS.items():
        found[event.name, event.by]["at the request"].append(name)
    for (name, by), moments in sorted(found.items()):
        runs = dict.fromkeys(run for runs in moments.values() for run in runs)
        yield f"`{name}`", by, ", ".join(runs), "; ".join(moments)


def _of_saga(announced: Announced) -> Iterator[tuple[Event, str]]:
    for step, events in announced.after.items():
        yield from ((event, f"after `{step}`") for event in events)
    for step, events in announced.confirmed.items():
        yield from ((event, f"after `{step}`, if that was requested") for event in events)
    for step, events in announced.undone.items():
        yield from ((event, f"after the undo of `{step}`") for event in events)
    others: Sequence[tuple[Sequence[Event], str]] = (
        (announced.reverted, "when it is reverted"),
        (announced.cancelled, "when it is cancelled"),
        (announced.failed, "when it fails"),
        (announced.unbegun, "when it fails before it began"),
    )
    for events, when in others:
        yield from ((event, when) for event in events)


# Instance actions


def _action_events() -> Iterator[tuple[str, ...]]:
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for saga in SAGAS:
        for step in saga.steps:
            if step.event:
                found[step.event][f"`{step.name}`"] = None
            if step.undo_event:
                found[step.undo_event][f"the undo of `{step.name}`"] = None
    for event, steps in sorted(found.items()):
        yield f"`{event}`", ", ".join(sorted(steps))


# Log


def _log_rows() -> Iterator[tuple[str, ...]]:
    for found in sorted(set(log_events())):
        fields = ", ".join(f"`{field}`" for field in found.fields)
        yield found.event, found.level, fields, f"`{found.module}`"


def log_events() -> Iterator[LogEvent]:
    """Yield the calls of loggers named `log` whose event is a constant."""
    for file in sorted(SOURCE.rglob("*.py")):
        module = ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="log"), attr=level),
                    args=[ast.Constant(value=str(event)), *_],
                    keywords=fields,
                ) if level in LEVELS:
                    yield LogEvent(event, level, tuple(field.arg for field in fields if field.arg), module)
