"""`whimbrel bootstrap`: the initial contents of a cloud whose API processes have no files."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from whimbrel.cli import log_setup, terminal
from whimbrel.cli.role_options import DatabaseFile, SettingsFile, database_of, settings_of
from whimbrel.domain.errors import Invalid, Unavailable
from whimbrel.settings.datadir import DataDir

if TYPE_CHECKING:
    from whimbrel.bootstrap.process_base import Start


def bootstrap(
    *, directory: Path, settings_file: SettingsFile = None, database_file: DatabaseFile = None, verbose: bool = False
) -> None:
    """Create the cells of the settings, first users, flavors, a network and an image, each unless it is there.

    Parameters
    ----------
    directory
        Directory for passwords.json and clouds.yaml: whoever reads them is an administrator.
    settings_file
        The settings. Default: /etc/whimbrel/whimbrel.toml.
    database_file
        A file with the URL of the database, if the settings have none.
    verbose
        Log more than warnings.
    """
    log_setup.configure(verbose)
    config = settings_of(settings_file, directory)
    if config.services.url is None:
        raise Invalid("[services] of the settings has no 'url', which clients are to use: set it")
    from whimbrel.bootstrap.process_base import Start
    from whimbrel.bootstrap.registration import this_process
    from whimbrel.bootstrap.roles import BOOTSTRAP

    home = DataDir(directory)
    home.make()
    url = database_of(config, database_file, None)
    asyncio.run(_bootstrap(Start(BOOTSTRAP, config, url, this_process("bootstrap", "bootstrap")), home))


async def _bootstrap(start: "Start", home: DataDir) -> None:
    from whimbrel.bootstrap.cells import name_cells
    from whimbrel.bootstrap.initial_contents import IMAGE_NAME, furnish, furnish_image
    from whimbrel.bootstrap.process_factory import open_process

    console = terminal.console()
    process = await open_process(start)
    try:
        await name_cells(start.config, process.cloud)
        await process.cells.open()
        passwords = await furnish(process, home.write_passwords)
        home.write_clouds(process.urls.identity.removesuffix("/identity"), start.config.services.ca_file)
        if passwords is None:
            console.print("The cloud has accounts already; their passwords are where they were first written.")
        else:
            console.print(f"Accounts: {', '.join(passwords)}. Passwords: {home.path / 'passwords.json'}")
        try:
            await furnish_image(process)
            console.print(f"Image: {IMAGE_NAME}")
        except Unavailable as trouble:
            console.print(f"No image was made: {trouble.reason}. Run this again when the image service answers.")
    finally:
        await process.close()
