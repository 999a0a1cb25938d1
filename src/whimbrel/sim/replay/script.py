"""The answers of the cloud to a move, step by step, from its journal: a replay repeats them."""

from dataclasses import dataclass, field

from whimbrel.domain.run import LogEntry
from whimbrel.moves.journal_export import Export

ENDLESS = 10**6
WAITS = "waits for the undo of"
NOWHERE = "nobody answered"


@dataclass
class Beat:
    """The answers at one step: a number of timeouts, then a refusal, a verdict, or nothing special."""

    silences: int = 0
    why: str = NOWHERE
    refusal: str | None = None
    turned: bool = False
    debt: str | None = None


@dataclass
class Script:
    beats: dict[tuple[str, str], list[Beat]] = field(default_factory=dict)
    takeovers: dict[str, int] = field(default_factory=dict)

    def at(self, step: str, way: str) -> list[Beat]:
        return self.beats.setdefault((step, way), [])


def script_of(export: Export) -> Script:
    """Return the recorded answers."""
    script, log = Script(), export.log
    for entry in log:
        if beat := _beat(entry):
            script.at(entry.step, entry.way).append(beat)
    if export.run["state"] == "open" and export.run["tries"] and export.run["way"] == "forward":
        beat = Beat(silences=export.run["tries"], why=export.run["message"] or NOWHERE)
        script.at(export.run["at"], "do").append(beat)
    for takeover in export.takeovers:
        step = next((e.step for e in log if e.began + e.took_s >= takeover.at), export.run["at"])
        script.takeovers[step] = script.takeovers.get(step, 0) + 1
    return script


def _beat(entry: LogEntry) -> Beat | None:
    detail = entry.detail or ""
    if entry.way == "undo":
        if entry.outcome == "debt" and detail.startswith(WAITS):
            return None  # it follows from the other debts
        return Beat(debt=detail) if entry.outcome == "debt" else Beat()
    if entry.outcome == "refused":
        if detail.startswith("no answer: "):
            return Beat(silences=ENDLESS, why=detail.removeprefix("no answer: "))
        return Beat(refusal=detail)
    if entry.outcome == "asked":
        return Beat(turned=True)
    tries = detail.removeprefix("after ").removesuffix(" tries")
    return Beat(silences=int(tries) if tries.isdigit() else 0)
