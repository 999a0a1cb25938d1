"""`whimbrel bootstrap`: the initial contents of a cloud whose API processes have no files."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from whimbrel.cli import log_setup, terminal
from whimbrel.cli.role_options import DatabaseFile, SettingsFile, database_of, settings_of
from whimbrel.domain.errors import Invalid, Unavailable
from whimbrel.settings import CloudConfig
from whimbrel.settings.datadir import DataDir

if TYPE_CHECKING:
    from whimbrel.bootstrap.process import Process
    from whimbrel.bootstrap.process_base import Start


def bootstrap(
    *,
    directory: Path | None = None,
    settings_file: SettingsFile = None,
    database_file: DatabaseFile = None,
    register: bool = False,
    print_commands: Annotated[bool, Parameter(name="--print")] = False,
    replace: bool = False,
    verbose: bool = False,
) -> None:
    """Create the cells of the settings, first users, flavors, a network and an image, each unless it is there.

    What belongs to services that others run is not created.

    Parameters
    ----------
    directory
        Directory for passwords.json and clouds.yaml: whoever reads them is an administrator. With [keystone] none is
        needed.
    settings_file
        The settings. Default: /etc/whimbrel/whimbrel.toml.
    database_file
        A file with the URL of the database, if the settings have none.
    register
        With [keystone]: make the entries of compute and Placement in its catalog, and nothing else.
    print_commands
        With --register: print the commands that make the entries instead, for an administrator of Keystone.
    replace
        With --register: replace endpoints that the catalog has at other URLs.
    verbose
        Log more than warnings.
    """
    log_setup.configure(verbose)
    config = settings_of(settings_file, directory)
    if config.services.url is None and not (register and config.services.compute and config.services.placement):
        raise Invalid("[services] of the settings has no 'url', which clients are to use: set it")
    if register:
        _register(config, print_commands=print_commands, replace=replace)
        return
    if print_commands or replace:
        raise Invalid("--print and --replace are for --register: give it too")
    if directory is None and config.keystone is None:
        raise Invalid("the passwords of the first accounts need a place: give --directory")
    from whimbrel.bootstrap.process_base import Start
    from whimbrel.bootstrap.registration import this_process
    from whimbrel.bootstrap.roles import BOOTSTRAP

    home = DataDir(directory) if directory else None
    if home:
        home.make()
    url = database_of(config, database_file, None)
    asyncio.run(_bootstrap(Start(BOOTSTRAP, config, url, this_process("bootstrap", "bootstrap")), home))


def _register(config: CloudConfig, *, print_commands: bool, replace: bool) -> None:
    if config.keystone is None:
        raise Invalid("the identity service is embedded, and its catalog has this cloud: [keystone] names another one")
    if print_commands:
        from whimbrel.adapters.openstack.catalog_entries import commands
        from whimbrel.bootstrap.own_catalog_entries import own_entries

        print("\n".join(commands(own_entries(config), config.keystone.region or "RegionOne")))
        return
    from whimbrel.bootstrap import own_catalog_entries

    console = terminal.console()
    changed = asyncio.run(own_catalog_entries.register(config, replace=replace))
    for line in changed:
        console.print(f"Registered: {line}", markup=False)
    if not changed:
        console.print("The catalog has this cloud already.")


async def _bootstrap(start: "Start", home: DataDir | None) -> None:
    from whimbrel.bootstrap.cells import name_cells
    from whimbrel.bootstrap.process_factory import open_process

    process = await open_process(start)
    try:
        await name_cells(start.config, process.cloud)
        await process.cells.open()
        if home and process.own_accounts:
            await _fill_and_report(process, start, home)
        else:
            from whimbrel.bootstrap.first_flavors import write_down_flavors

            await write_down_flavors(process.cloud)
            terminal.console().print("Cells and flavors are there. Accounts, and what others run, are not made here.")
    finally:
        await process.close()


async def _fill_and_report(process: "Process", start: "Start", home: DataDir) -> None:
    """Create the initial contents that are missing, and print what was made; without an image if nothing takes it."""
    from whimbrel.bootstrap.initial_contents import IMAGE_NAME, create_first_accounts, create_first_image

    console = terminal.console()
    passwords = await create_first_accounts(process, home.write_passwords)
    home.write_clouds(process.urls.identity.removesuffix("/identity"), start.config.services.ca_file)
    if passwords is None:
        console.print("The cloud has accounts already; their passwords are where they were first written.")
    else:
        console.print(f"Accounts: {', '.join(passwords)}. Passwords: {home.path / 'passwords.json'}")
    try:
        await create_first_image(process)
        console.print(f"Image: {IMAGE_NAME}")
    except Unavailable as trouble:
        console.print(f"No image was made: {trouble.reason}. Run this again when the image service answers.")
