"""Settings files of OpenStack's services, read as leniently as oslo.config reads them.

A file with nothing but the URL of a database is read too, so that a command needs no copy of the whole file.
"""

from configparser import ConfigParser
from configparser import Error as ConfigError
from pathlib import Path

from whimbrel.domain.errors import Invalid
from whimbrel.settings.named_files import read_text


def read_settings(file: Path, option: str) -> ConfigParser:
    """Return the sections of a file, none if it has only a URL. option: that names it. Raises: Invalid."""
    return _parsed(read_text(file, option), file, option)


def read_connection(file: Path, section: str, option: str) -> str:
    """Return the URL of a database: `connection` in the section, or all that the file has. Raises: Invalid."""
    text = read_text(file, option)
    settings = _parsed(text, file, option)
    has_sections = bool(settings.sections() or settings.defaults())
    url = settings.get(section, "connection", fallback=None) if has_sections else text.strip()
    if not url or "://" not in url:
        raise Invalid(f"{option} {file} has no 'connection' in its section [{section}]: name the file that has it")
    return url


def _parsed(text: str, file: Path, option: str) -> ConfigParser:
    settings = ConfigParser(strict=False, interpolation=None, allow_no_value=True)
    try:
        if "\n[" in f"\n{text}":
            settings.read_string(text)
    except ConfigError as error:
        raise Invalid(f"{option} {file} is no settings file of OpenStack: {error}") from None
    return settings
