"""Counts of simulated runs: requests, their results, faults.

They show whether everything that ought to be tested occurs: a fault that never occurred proves nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from whimbrel.domain.run import Run, has_facts
from whimbrel.moves.facts import MoveFacts, changes_host, crosses_cells
from whimbrel.moves.live_migrate import LIVE_MIGRATE
from whimbrel.moves.resize import MIGRATE, RESIZE

KINDS = ("asked", "ended", "moved with", "went wrong", "restored")

Counts = dict[str, dict[str, dict[str, int]]]
"""Kind -> subject -> result -> count."""


class Tally:
    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def asked(self, what: str, status: int) -> None:
        self._counts["asked", what, str(status or "no answer")] += 1

    def went_wrong(self, what: str, where: str = "") -> None:
        """Count a fault. where: its line; all cells count as one."""
        self._counts["went wrong", what, "cell" if where.startswith("cell_") else where or "times"] += 1

    def restored(self, which: str, how: str) -> None:
        self._counts["restored", which, how] += 1

    def ended(self, runs: Iterable[Run]) -> None:
        for run in runs:
            self._counts["ended", _what(run), _how(run)] += 1
            if run.saga in _MOVES and has_facts(run, MoveFacts):
                self._counts.update([("moved with", one, _how(run)) for one in _cargo(run.facts)])

    def counts(self) -> Counts:
        found: Counts = {}
        for (kind, what, how), number in sorted(self._counts.items()):
            found.setdefault(kind, {}).setdefault(what, {})[how] = number
        return found


_MOVES = (RESIZE.name, MIGRATE.name, LIVE_MIGRATE.name)


def _what(run: Run) -> str:
    if run.saga not in _MOVES or not has_facts(run, MoveFacts):
        return run.saga
    facts = run.facts
    if facts.target is None:
        return f"{run.saga} to nowhere"
    if crosses_cells(facts):
        return f"{run.saga} to another cell"
    return f"{run.saga} to another host" if changes_host(facts) else f"{run.saga} on its host"


def _how(run: Run) -> str:
    if run.state == "undone":
        return run.turned or "undone"
    return run.state


def _cargo(facts: MoveFacts) -> list[str]:
    """Return what a move transferred besides the guest."""
    has = {
        "nothing": not (facts.ports or facts.volumes),
        "ports": bool(facts.ports),
        "bandwidth": any(port.requests for port in facts.ports),
        "a virtual function": any(port.nic.vnic_type == "direct" for port in facts.ports),
        "volumes": bool(facts.volumes),
        "a boot volume": not facts.has_local_root,
        "a group": bool(facts.hints.get("group")),
    }
    return [name for name, is_so in has.items() if is_so]


def together(each: Iterable[Counts]) -> Counts:
    total: Counter[tuple[str, str, str]] = Counter()
    for counts in each:
        for kind, whats in counts.items():
            for what, hows in whats.items():
                total.update({(kind, what, how): number for how, number in hows.items()})
    tally = Tally()
    tally._counts = total
    return tally.counts()


def lines(counts: Mapping[str, Mapping[str, Mapping[str, int]]]) -> list[str]:
    """Format the counts as text: one line per subject, most frequent first, with its results."""
    said = []
    for kind in KINDS:
        if kind == "restored" and kind not in counts:
            continue  # most runs have no restore
        said.append(f"{kind}:")
        whats = sorted(counts.get(kind, {}).items(), key=lambda one: -sum(one[1].values()))
        for what, hows in whats:
            parts = ", ".join(f"{how} {number:,}" for how, number in sorted(hows.items(), key=lambda one: -one[1]))
            said.append(f"  {what:<24} {sum(hows.values()):>7,}  {parts}")
    return said
