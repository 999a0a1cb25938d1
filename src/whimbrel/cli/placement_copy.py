"""`whimbrel placement import` and `export`: copy everything from OpenStack Placement's own database, and back."""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.markup import escape

from whimbrel.adapters.sql.engine.urls import without_password
from whimbrel.cli import SAYS_NO, log_setup, terminal
from whimbrel.cli.database_option import VARIABLE, chosen_database, warn_of_passwords
from whimbrel.cli.oslo_files import read_connection
from whimbrel.cli.output_format import Json
from whimbrel.cli.progress_bar import bar
from whimbrel.domain.errors import Invalid

if TYPE_CHECKING:
    from whimbrel.adapters.sql.placement_transfer.copying import Report

SECTION = "placement_database"
"""The section of placement.conf that has the URL of its database."""


def import_(
    *,
    source: Annotated[str | None, Parameter(name="--from")] = None,
    source_file: Annotated[Path | None, Parameter(name="--from-file")] = None,
    db: str | None = None,
    db_file: Path | None = None,
    replace: bool = False,
    verify: bool = False,
    json: Json = False,
) -> int:
    """Copy all providers, inventories, traits, aggregates, consumers and allocations, with their generations.

    The copy is one transaction, compared with its source row by row before it is committed. Stop OpenStack Placement
    first: what it writes afterwards is not copied.

    Parameters
    ----------
    source
        OpenStack Placement's database: mysql://USER:PASSWORD@HOST/placement, or postgresql://...
    source_file
        A file with that URL, or placement.conf.
    db
        Whimbrel's database: sqlite:///DIRECTORY, or postgresql://USER@HOST/NAME. It is created if it does not exist.
        Default: the environment variable WHIMBREL_DATABASE.
    db_file
        A file with that URL.
    replace
        Delete what Whimbrel's database has before. Without it, a database that is not empty is refused.
    verify
        Only compare the two databases. Exit code 1: they differ.
    """
    openstack, own = _urls(source, source_file, "--from", db, db_file)
    return _run(openstack, own, imports=True, replace=replace, verify=verify, json=json)


def export(
    *,
    target: Annotated[str | None, Parameter(name="--to")] = None,
    target_file: Annotated[Path | None, Parameter(name="--to-file")] = None,
    db: str | None = None,
    db_file: Path | None = None,
    replace: bool = False,
    verify: bool = False,
    json: Json = False,
) -> int:
    """Copy everything into OpenStack Placement's database, which `placement-manage db sync` has prepared.

    The copy is one transaction, compared with its source row by row before it is committed. Stop `whimbrel placement`
    first, and OpenStack Placement too.

    Parameters
    ----------
    target
        OpenStack Placement's database: mysql://USER:PASSWORD@HOST/placement, or postgresql://...
    target_file
        A file with that URL, or placement.conf.
    db
        Whimbrel's database: sqlite:///DIRECTORY, or postgresql://USER@HOST/NAME. Default: the environment variable
        WHIMBREL_DATABASE.
    db_file
        A file with that URL.
    replace
        Delete what OpenStack Placement's database has before. Without it, a database that is not empty is refused.
    verify
        Only compare the two databases. Exit code 1: they differ.
    """
    openstack, own = _urls(target, target_file, "--to", db, db_file)
    return _run(openstack, own, imports=False, replace=replace, verify=verify, json=json)


def _urls(url: str | None, file: Path | None, option: str, db: str | None, db_file: Path | None) -> tuple[str, str]:
    """Return the URLs of OpenStack Placement's and of Whimbrel's database. Raises: Invalid."""
    log_setup.configure(verbose=False)
    warn_of_passwords()
    if (url is None) == (file is None):
        raise Invalid(f"which database of OpenStack Placement is meant: give {option} or {option}-file, one of them")
    own = chosen_database(db, db_file, "--db")
    if own is None:
        raise Invalid(f"no database of Whimbrel is named: give --db, --db-file or {VARIABLE}")
    return url or read_connection(Path(file or ""), SECTION, f"{option}-file"), own


def _run(openstack_url: str, own_url: str, *, imports: bool, replace: bool, verify: bool, json: bool) -> int:
    """Copy or compare, print the result, and return the exit code."""
    from whimbrel.adapters.clock import SystemClock
    from whimbrel.adapters.sql.placement_transfer import copying
    from whimbrel.adapters.sql.placement_transfer.transfer_databases import open_openstack, open_own

    now = datetime.fromtimestamp(SystemClock().now(), UTC)
    with (
        bar(None if json else terminal.console()) as shown,
        open_openstack(openstack_url, now, writes=not verify and not imports) as openstack,
        open_own(own_url, writes=not verify and imports) as own,
    ):
        task = shown.add_task("", total=None)

        def show(what: str, done: int, total: int) -> None:
            shown.update(task, description=what, completed=done, total=total)

        source, target = (openstack, own) if imports else (own, openstack)
        if verify:
            report = copying.compare(source, target, show)
        else:
            report = copying.copy(source, target, replace=replace, show=show)
    urls = (openstack_url, own_url) if imports else (own_url, openstack_url)
    return _print_report(report, *urls, verify=verify, json=json)


def _print_report(report: "Report", source: str, target: str, *, verify: bool, json: bool) -> int:
    """Print how the databases compare, and return the exit code."""
    if json:
        what = {"source": without_password(source), "target": without_password(target)}
        terminal.write_json({"placement": {**what, "equal": report.is_equal, "copied": not verify, **asdict(report)}})
    else:
        terminal.console().print("\n".join(_lines(report, source, target, verify=verify)), soft_wrap=True)
    return 0 if report.is_equal else SAYS_NO


def _lines(report: "Report", source: str, target: str, *, verify: bool) -> Iterator[str]:
    from whimbrel.adapters.sql.placement_transfer.copying import differences

    names = f"{escape(without_password(source))} and {escape(without_password(target))}"
    for each in report.kinds:
        yield f"{each.rows:>9,} {each.kind}{'' if each.is_equal else ' [red]differ[/]'}"
    for what, number in report.left_out.items():
        yield f"[yellow]{number:>9,} {what} were left out: no client sees them[/]"
    for sentence in differences(report):
        yield f"[red]{escape(sentence)}[/]"
    if not report.is_equal:
        yield f"[bold red]Different[/]: {names}"
    elif verify:
        yield f"[bold green]Equal[/]: {names}"
    else:
        yield f"[bold green]Copied, and compared row by row[/]: {names}"
