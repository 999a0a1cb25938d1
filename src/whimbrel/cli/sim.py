"""`whimbrel sim`: the whole cloud in one process under a simulated clock, with every kind of fault, from a seed."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from os import cpu_count
from pathlib import Path
from typing import Annotated, Any

import msgspec
import structlog
from cyclopts import App, Parameter
from msgspec.structs import replace

from whimbrel.cli import terminal
from whimbrel.cli.progress_bar import bar
from whimbrel.domain.errors import Invalid
from whimbrel.sim.faults.planned_events import (
    ACTS,
    FAULTS,
    Size,
    Story,
    from_document,
    names_of_weights,
    story_of,
    to_file,
    varied,
)
from whimbrel.sim.record.statistics import Counts, lines, together
from whimbrel.sim.record.trace import Line, folded
from whimbrel.sim.runs.shrink import shrink
from whimbrel.sim.runs.simulation import Outcome
from whimbrel.sim.runs.simulation import run as tell

app = App(
    name="sim",
    help="Run the whole cloud in one process under a simulated clock, with faults; repeatable by seed.",
    default_parameter=Parameter(negative=()),
)

PER_TASK = 10
LONGEST_GAP_S = 86_400.0


@app.command
def run(
    *,
    seed: int = 0,
    seeds: int = 1,
    steps: int = 25,
    hosts: int = 4,
    servers: int = 5,
    cells: int | None = None,
    gap: float = 4.0,
    faults: float = 0.5,
    weight: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    jobs: int = 1,
    as_it_is: bool = False,
    timeline: bool = False,
    save: Path | None = None,
    json: bool = False,
) -> int:
    """Run a simulated cloud, and check its invariants after every event. Exit code 1: one is violated.

    Users create, delete, resize, migrate, attach and so on through the real API; processes die and freeze, messages are
    lost, delayed and duplicated, databases and services fail, hosts lose power. Then the faults stop, and every move
    has to end. A seed that fails is minimized and shown; of several that fail in the same way, the first one.

    Parameters
    ----------
    seed
        Determines everything: the same seed gives the same output, byte for byte.
    seeds
        How many seeds, from the first on.
    steps
        How many requests of users and faults, together.
    hosts
        How many hosts the cloud has.
    servers
        How many servers the cloud has at the start.
    cells
        How many cells the hosts are in. Default: every third seed has two, the others one.
    gap
        Simulated seconds between two steps, on average.
    faults
        The fraction of steps that are faults: 0 to 1.
    weight
        How often a kind of step occurs, if not as by default: kill=9 or resize=0; can be repeated.
    jobs
        How many processes run seeds concurrently; 0: one for each core.
    as_it_is
        Show a failing seed as it is, without minimizing it.
    timeline
        Show the timeline also if all invariants hold.
    save
        File to which the (minimized) events of the first failing seed are written, for: whimbrel sim replay FILE.
    json
        JSON instead of text, one document for each seed. `counts` has the numbers of requests and faults by kind.
    """
    size = Size(
        hosts=hosts, servers=servers, cells=cells or 1, gap_s=gap, faults=faults, weights=dict(map(_weight, weight))
    )
    _check(size, seeds, steps, cells, jobs, save)
    began, failed, total = time.monotonic(), 0, 0.0
    counts: Counts = {}
    kinds: set[str] = set()
    stories = [_story(number, steps, size, cells) for number in range(seed, seed + seeds)]
    with bar(None if json else terminal.console()) as shown:
        task = shown.add_task("", total=seeds)
        for outcome in _outcomes(stories, jobs):
            total += outcome.seconds
            counts = together([counts, outcome.counts])
            is_news = as_it_is or outcome.kind not in kinds
            kinds.add(outcome.kind)
            if outcome.failure and is_news and not as_it_is:
                shown.update(task, description=f"seed {outcome.story.seed} fails: making it short")
                outcome = shrink(outcome, tell)
            if outcome.failure:
                failed += 1
                if save and failed == 1:
                    save.write_bytes(to_file(outcome.story))
            shown.update(task, advance=1, description=f"{failed} failed" if failed else "")
            if json:
                terminal.write_json(document(outcome))
            elif (outcome.failure and is_news) or timeline:
                say(outcome)
            elif outcome.failure:
                _print_failure(outcome)
            if outcome.failure and not json:
                _print_command(outcome.story.seed, steps, size, cells)
    if not json:
        if seeds > 1:
            terminal.console().print("\n".join(lines(counts)), markup=False, highlight=False, soft_wrap=True)
        _sum_up(seeds, failed, total, time.monotonic() - began)
    return 1 if failed else 0


@app.command
def replay(file: Path, /, *, json: bool = False) -> int:
    """Replay a file: events that `sim run --save` wrote, or a move that `move export` wrote.

    A move of a real cloud goes through the same steps, with the same answers as then; from its current step on, all
    calls succeed. Exit code 1: an invariant is violated, or the move took other steps.

    Parameters
    ----------
    file
        The saved or exported file.
    json
        JSON instead of text.
    """
    kept = _read(file)
    if kept.get("whimbrel") == "move":
        return _replay_move(kept, json)
    kept.pop("whimbrel", None)
    try:
        began, outcome = time.monotonic(), tell(from_document(kept))
    except msgspec.ValidationError as error:
        raise Invalid(f"{file} is neither a saved story nor an exported move: {error}") from None
    if json:
        terminal.write_json(document(outcome))
    else:
        say(outcome)
        _sum_up(1, int(outcome.failure is not None), outcome.seconds, time.monotonic() - began)
    return 1 if outcome.failure else 0


def _read(file: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise Invalid(f"{file} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise Invalid(f"{file} is neither a saved story nor an exported move: {error}") from None


def _replay_move(kept: dict[str, Any], json: bool) -> int:
    from whimbrel.moves.journal_export import read
    from whimbrel.sim.replay.replay import Replay
    from whimbrel.sim.world.loop import new_loop

    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    replayed = new_loop(0).run_until_complete(Replay(read(kept)).tell())
    if json:
        told = [{"at": line.at, "who": line.who, "what": line.what} for line in replayed.told]
        body = {"stood": replayed.stood, "stands": replayed.stands, "differs": replayed.differs, "timeline": told}
        terminal.write_json(body)
    else:
        _print_lines(replayed.told)
        console = terminal.console()
        console.print(f"the real one: {replayed.stood}", markup=False)
        console.print(f"here, where it came to in the end: {replayed.stands}", markup=False)
        if replayed.differs:
            console.print(f"it went another way: {replayed.differs}", style="bold red", markup=False)
    return 1 if replayed.differs else 0


def _weight(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    name = name.replace("-", " ")
    if name not in names_of_weights() or not value.isdigit():
        known = ", ".join(each.replace(" ", "-") for each in names_of_weights())
        raise Invalid(f"--weight {text}: give NAME=NUMBER; names are {known}")
    return name, int(value)


def _check(size: Size, seeds: int, steps: int, cells: int | None, jobs: int, save: Path | None) -> None:
    if min(size.hosts, size.servers, size.cells if cells is None else cells, seeds) < 1 or min(steps, jobs) < 0:
        raise Invalid("hosts, servers, cells and seeds are 1 at least, steps and jobs 0 at least")
    if not 0 < size.gap_s <= LONGEST_GAP_S:
        raise Invalid(f"--gap is in seconds: more than 0, and {LONGEST_GAP_S:.0f} at most")
    if size.cells > size.hosts:
        raise Invalid(f"--hosts {size.hosts}: each of the {size.cells} cells needs one")
    if not 0 <= size.faults <= 1:
        raise Invalid("--faults is a part of the steps: 0 to 1")
    for part, kinds in ((1 - size.faults, ACTS), (size.faults, FAULTS)):
        if part and not any(size.weights.get(kind, usual) for kind, usual in kinds.items()):
            raise Invalid(f"--weight leaves nothing of {', '.join(kinds)}")
    if save and not save.parent.is_dir():
        raise Invalid(f"--save {save}: there is no directory {save.parent}")
    if save and save.is_dir():
        raise Invalid(f"--save {save}: that is a directory; name a file")


def _story(seed: int, steps: int, size: Size, cells: int | None) -> Story:
    various = varied(seed, size)
    return story_of(seed, steps, various if cells is None else replace(various, cells=cells))


def _outcomes(stories: Sequence[Story], jobs: int) -> Iterator[Outcome]:
    if jobs == 1 or len(stories) == 1:
        yield from map(_one, stories)
        return
    with ProcessPoolExecutor(jobs or cpu_count() or 1, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_one, stories, chunksize=max(1, min(PER_TASK, len(stories) // 4)))


def _one(story: Story) -> Outcome:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    return tell(story)


# Output


def document(outcome: Outcome) -> dict[str, Any]:
    return {
        "seed": outcome.story.seed,
        "failure": outcome.failure,
        "events": outcome.events,
        "simulated_s": round(outcome.seconds, 3),
        "trace": outcome.hash,
        "counts": outcome.counts,
        "story": msgspec.to_builtins(outcome.story),
        "timeline": [{"at": line.at, "who": line.who, "what": line.what} for line in outcome.told],
    }


def say(outcome: Outcome) -> None:
    """Print a run as a timeline: simulated time, source, event."""
    terminal.console().print(
        f"[bold]seed {outcome.story.seed}[/], {terminal.counted(len(outcome.story.decisions), 'step')}:",
        highlight=False,
    )
    _print_lines(list(folded(outcome.told)))


def _print_failure(outcome: Outcome) -> None:
    """Print only how a run fails: an earlier one has shown the rest."""
    line = f"seed {outcome.story.seed} fails in a way that was shown already: {outcome.failure}"
    terminal.console().print(line, style="bold red", markup=False, highlight=False, soft_wrap=True)


def _print_lines(told: Sequence[Line]) -> None:
    console = terminal.console()
    for line in told:
        style = {"fault": "yellow", "user": "cyan", "law": "bold red", "world": "yellow", "operator": "cyan"}.get(
            line.who, ""
        )
        console.print(str(line), style=style, markup=False, highlight=False, soft_wrap=True)


def _print_command(seed: int, steps: int, size: Size, cells: int | None) -> None:
    """Print the command that repeats the whole run; `size` as it was given."""
    usual = Size()
    asked = {
        "hosts": (size.hosts, usual.hosts),
        "servers": (size.servers, usual.servers),
        "cells": (cells, None),
        "gap": (size.gap_s, usual.gap_s),
        "faults": (size.faults, usual.faults),
    }
    words = [f"--{name} {value}" for name, (value, default) in asked.items() if value != default]
    words += [f"--weight {name.replace(' ', '-')}={value}" for name, value in size.weights.items()]
    again = " ".join(["whimbrel sim run", f"--seed {seed} --steps {steps}", *words, "--as-it-is"])
    terminal.console().print(f"again, all of it: {again}", highlight=False, soft_wrap=True)


def _sum_up(seeds: int, failed: int, simulated_s: float, real_s: float) -> None:
    word = "seed" if seeds == 1 else "seeds"
    verdict = f"[bold red]{failed} failed[/]" if failed else "all invariants hold"
    terminal.console().print(
        f"{seeds} {word}, {simulated_s:,.0f} simulated seconds in {real_s:,.1f} s: {verdict}", highlight=False
    )
