"""Where a fault can hit a step: the points of the map, or why there is none."""

from collections.abc import Callable, Sequence

from tools.faultmap.environment import is_of_a_database
from tools.faultmap.rows import Row
from tools.faultmap.troubles import AGENTS_RESTART, HOSTS_GO, Strike, Trouble, can_overtake

NOTHING = "the step changes nothing"
ITSELF = "it is itself a write of the journal"
MEASURE = "a transaction of the journal comes once or never"
LAST = "no other request follows"
NO_TARGET = "no target is chosen yet"
NO_SOURCE = "the source is not known yet"
NOT_ASKED = "that host is given no order"
NOBODY_ASKS = "nobody asks that host any more"
SAME_HOST = "source and target are one host"
OURS = "our own records refuse nothing here"
HANDS = "somebody faster at the journal is a newer epoch: see sleeps"
ONE_OWNER = "a host does not say that somebody was faster"

Found = tuple[int, Strike] | str
"""A touch and its fault; or why there is none."""


def find(row: Row, trouble: Trouble, touches: Sequence[str]) -> Found:
    """Return where a fault hits a step."""
    if trouble in HOSTS_GO:
        return _host_goes(row, trouble, touches)
    if trouble in AGENTS_RESTART:
        return _agent_restarts(row, trouble, touches)
    if trouble in (Trouble.CRASH_SAVED, Trouble.SAVE_UNANSWERED):
        return ITSELF if row.save is None else _at(row.save, trouble, touches)
    if trouble is Trouble.DATABASE_AWAY:
        looks = (at for at in range(row.first, len(touches)) if is_of_a_database(touches[at]))
        return _at(next(looks), trouble, touches)
    if trouble is Trouble.CONFLICT and touches[row.effects[0] if row.effects else row.first] == "journal.park":
        return HANDS
    if not row.effects:
        lost_look = trouble is Trouble.REQUEST_LOST and row.first < row.last
        return _at(row.first, trouble, touches) if lost_look else NOTHING
    if trouble in (Trouble.CRASH_AFTER, Trouble.ANSWER_LOST):
        return _at(row.effects[-1], trouble, touches)
    if trouble is Trouble.REORDERED:
        return _reordered(row, touches)
    suits, lacking = _SUITS.get(trouble, (_any, NOTHING))
    return next((_at(at, trouble, touches) for at in row.effects if suits(touches[at])), lacking)


def _at(number: int, trouble: Trouble, touches: Sequence[str], host: str = "") -> tuple[int, Strike]:
    return number, Strike(trouble, touches[number], host)


def _host_goes(row: Row, trouble: Trouble, touches: Sequence[str]) -> Found:
    host = row.target if trouble is Trouble.TARGET_GONE else row.source
    if host is None:
        return NO_TARGET
    if trouble is Trouble.SOURCE_GONE and host == row.target:
        return SAME_HOST
    asked = any(_is_order_to(host)(touch) for touch in touches[row.first :])
    return _at(row.first, trouble, touches, host) if asked else NOBODY_ASKS


def _agent_restarts(row: Row, trouble: Trouble, touches: Sequence[str]) -> Found:
    host = row.target if trouble is Trouble.AGENT_RESTARTS else row.source
    if host is None:
        return NO_TARGET if trouble is Trouble.AGENT_RESTARTS else NO_SOURCE
    if trouble is Trouble.SOURCE_RESTARTS and host == row.target:
        return SAME_HOST
    orders = (at for at in row.effects if _is_order_to(host)(touches[at]))
    return next((_at(at, trouble, touches, host) for at in orders), NOT_ASKED)


def _reordered(row: Row, touches: Sequence[str]) -> Found:
    held = next((at for at in row.effects if _is_not_journal(touches[at])), None)
    if held is None:
        return MEASURE
    others = any(can_overtake(touch, touches[held]) for touch in touches[held + 1 :])
    return _at(held, Trouble.REORDERED, touches) if others else LAST


def _is_order_to(host: str) -> Callable[[str], bool]:
    return lambda touch: touch.startswith(f"agent {host}.")


def _any(_: str) -> bool:
    return True


def _is_not_journal(touch: str) -> bool:
    return not touch.startswith("journal.")


def _is_not_agent(touch: str) -> bool:
    return not touch.startswith("agent ")


def _may_refuse(touch: str) -> bool:
    services = ("agent ", "placement.", "network.", "volumes.", "images.")
    return touch.startswith(services) or ".devices." in touch or touch.endswith(".servers.lock")


_SUITS: dict[Trouble, tuple[Callable[[str], bool], str]] = {
    Trouble.DOUBLED: (_is_not_journal, MEASURE),
    Trouble.LATE: (_is_not_journal, MEASURE),
    Trouble.CONFLICT: (_is_not_agent, ONE_OWNER),
    Trouble.REFUSED: (_may_refuse, OURS),
}
