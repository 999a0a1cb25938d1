"""Draw the fault map: `make faultmap`, or `python -m tools.faultmap`. Exit code 1 when a point is red."""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import structlog

from tools.faultmap import pages, pairs, restored
from tools.faultmap.drawn import Rows, draw, is_point
from tools.faultmap.variants import AnyVariant, Variant, move_variants, variants
from whimbrel.sim.checks.invariants import Violation

SHOWN_DIFFERENCES = 40

Task = TypeVar("Task")
Result = TypeVar("Result")


class Unmappable(Exception):
    """A move fails even without a fault."""


def main(arguments: Sequence[str]) -> int:
    asked = _parser().parse_args(arguments)
    if asked.one_in > 1 and not asked.check:
        sys.exit("--one-in draws no map: it is for --check")
    try:
        if asked.pairs:
            return _draw_pairs(asked)
        if asked.add:
            return _add_to_map(asked)
        of_faults = 0 if asked.restored else _draw_map(asked)
        return of_faults or _draw_restored(asked)
    except Unmappable as broken:
        sys.exit(f"no map can be drawn: {broken}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.faultmap", description=__doc__)
    parser.add_argument("--into", type=Path, default=Path("docs/generated"), help="the folder of the pages")
    parser.add_argument("--processes", type=int, default=2, help="how many points are run concurrently")
    parser.add_argument("--only", default="", help="kinds of moves with this in their name; nothing is written then")
    parser.add_argument("--check", action="store_true", help="write nothing: fail if the map differs from the pages")
    parser.add_argument("--add", action="store_true", help="draw only the kinds that the map lacks, and add them")
    parser.add_argument(
        "--one-in", type=int, default=1, help="with --check: run one of so many points, or first faults of pairs"
    )
    parser.add_argument("--part", type=int, default=0, help="which of them, from 0; together they are all points")
    parser.add_argument("--pairs", action="store_true", help="pairs of faults in moves to another cell: much longer")
    parser.add_argument("--restored", action="store_true", help="only the map of restored databases")
    return parser


def _draw_map(asked: Any) -> int:
    chosen = [variant for variant in variants() if asked.only in variant.name]
    if not chosen:
        sys.exit("No kind of move has that in its name. There are:\n" + "\n".join(one.name for one in variants()))
    drawn = _draw_variants(chosen, asked)
    if asked.check:
        return 1 if _differs(drawn, asked.into / "fault-map.json") or pages.reds(drawn) else 0
    if not asked.only:
        _write_map(drawn, asked.into)
    return 1 if pages.reds(drawn) else 0


def _add_to_map(asked: Any) -> int:
    """Draw the kinds of moves that the page does not have; those that do not exist any more are left out."""
    known = pages.from_json((asked.into / "fault-map.json").read_text())
    new = _draw_variants([variant for variant in variants() if variant.name not in known], asked)
    new_rows = {variant.name: rows for variant, rows in new.items()}
    _write_map({variant: (known | new_rows)[variant.name] for variant in variants()}, asked.into)
    return 1 if pages.reds(new) else 0


def _draw_variants(chosen: Sequence[AnyVariant], asked: Any) -> pages.Map:
    tasks = [(variant.name, asked.one_in, asked.part) for variant in chosen]
    found = _all_of(_draw_one, tasks, asked.processes, _line_of_variant)
    drawn = dict(zip(chosen, found, strict=True))
    counts = pages.totals(drawn)
    print(f"{sum(counts.values()):,} points: {dict(counts)}", *pages.reds(drawn), sep="\n")
    return drawn


def _write_map(drawn: pages.Map, into: Path) -> None:
    into.mkdir(parents=True, exist_ok=True)
    (into / "fault-map.json").write_text(pages.to_json(drawn))
    (into / "fault-map.md").write_text(pages.to_markdown(drawn))


def _differs(drawn: pages.Map, page: Path) -> bool:
    """Check whether the map differs from the page."""
    return _say_differences(pages.differences(drawn, pages.from_json(page.read_text())), page)


def _say_differences(found: Sequence[str], page: Path) -> bool:
    if found:
        print(
            f"{len(found):,} differences from {page}; if they are meant, draw it anew: make faultmap", file=sys.stderr
        )
        print(*found[:SHOWN_DIFFERENCES], sep="\n", file=sys.stderr)
    return bool(found)


def _draw_restored(asked: Any) -> int:
    chosen = [variant for variant in move_variants() if asked.only in variant.name]
    tasks = [(variant, asked.one_in, asked.part) for variant in chosen]
    found = _all_of(_draw_one_restored, tasks, asked.processes, _line_of_restored)
    drawn = {variant.name: points for variant, points in zip(chosen, found, strict=True)}
    red, page = restored.reds(drawn), asked.into / "restored-map.json"
    print(f"{sum(restored.totals(drawn).values()):,} restores: {dict(restored.totals(drawn))}", *red, sep="\n")
    if asked.check:
        was = restored.from_json(page.read_text())
        return 1 if red or _say_differences(restored.differences(drawn, was), page) else 0
    if not asked.only:
        asked.into.mkdir(parents=True, exist_ok=True)
        page.write_text(restored.to_json(drawn))
        (asked.into / "restored-map.md").write_text(restored.to_markdown(drawn))
    return 1 if red else 0


def _draw_pairs(asked: Any) -> int:
    page = asked.into / "fault-pairs.md"
    before = page.read_text() if asked.add else ""
    new = [first for first in _of_whole(pairs.firsts()) if first.variant.name not in pairs.names_on(before)]
    firsts = pairs.sample([first for first in new if asked.only in str(first)], asked.one_in, asked.part)
    found = _all_of(_draw_pair, firsts, asked.processes, _line_of_pairs)
    drawn = dict(zip(firsts, found, strict=True))
    red = pairs.reds(drawn)
    print(f"{pairs.number_of(drawn):,} pairs, {len(red)} red", *red, sep="\n")
    if not (asked.only or asked.check):
        asked.into.mkdir(parents=True, exist_ok=True)
        page.write_text(pairs.to_markdown(drawn, before))
    return 1 if red else 0


# Work in several processes


def _all_of(
    act: Callable[[Task], Result], tasks: Sequence[Task], processes: int, line_of: Callable[[Task, Result], str]
) -> list[Result]:
    """Run all tasks, several at a time, and report progress."""
    began, found = time.monotonic(), []
    with get_context("fork").Pool(processes, _be_quiet) as pool:
        for task, result in zip(tasks, pool.imap(act, tasks), strict=True):
            found.append(result)
            took_s = time.monotonic() - began
            print(f"{len(found)}/{len(tasks)} {took_s:.0f} s  {line_of(task, result)}", file=sys.stderr, flush=True)
    return found


def _be_quiet() -> None:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory(), processors=[lambda *_: ""])


def _draw_one(task: tuple[str, int, int]) -> Rows:
    """Draw the variant of a name: scenarios have functions, which do not go from process to process."""
    name, one_in, part = task
    return _of_whole(draw(next(variant for variant in variants() if variant.name == name), one_in, part))


def _draw_one_restored(task: tuple[Variant, int, int]) -> restored.Points:
    return _of_whole(restored.draw(*task))


def _draw_pair(first: pairs.First) -> pairs.Seconds:
    return _of_whole(pairs.draw(first))


def _of_whole(drawing: Coroutine[Any, Any, Result]) -> Result:
    """Run it. A Violation is no Exception: it would end a process of the pool, and its result would never arrive."""
    try:
        return asyncio.run(drawing)
    except Violation as violation:
        raise Unmappable(str(violation)) from None


def _line_of_variant(task: tuple[str, int, int], rows: Rows) -> str:
    name, *_ = task
    cells = [cell for row in rows.values() for cell in row.values() if cell and is_point(cell)]
    return "\n".join([f"{name}: {len(cells)} points", *pages.reds_of(name, rows)])


def _line_of_restored(task: tuple[Variant, int, int], points: restored.Points) -> str:
    name, number = task[0].name, sum(map(bool, points.values()))
    return "\n".join([f"{name}: {number} restores", *restored.reds({name: points})])


def _line_of_pairs(first: pairs.First, seconds: pairs.Seconds) -> str:
    return "\n".join([f"{first}: {len(seconds)} pairs", *pairs.reds({first: seconds})])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
