"""The settings file: one for all roles. It has cells, hosts, the rules of the cloud, and where its services are.

Invariant: a file is accepted completely or not at all. Every error is one sentence that names the file, the location
and what to do.
"""

import os
import tomllib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from whimbrel.domain.errors import Invalid
from whimbrel.ports.cloud import Rules
from whimbrel.settings.cell_sections import LibvirtHost, SimulatedHost
from whimbrel.settings.error_messages import MUST_BE, sentence
from whimbrel.settings.files_of_settings import with_files
from whimbrel.settings.rules import limited_rules, under_new_names
from whimbrel.settings.sections import CloudConfig, HttpTable, SettingsFile
from whimbrel.settings.validation import check

__all__ = ["CloudConfig", "HttpTable", "LibvirtHost", "SimulatedHost", "find", "http_limits", "load"]

DEFAULT_CLOUD = "cloud.toml"  # in the package: the cloud of `whimbrel up` without a file
NAME = "whimbrel.toml"
SYSTEM = Path("/etc/whimbrel") / NAME

_RULES_TABLE = limited_rules()
_CLOUD_FILE = msgspec.defstruct(
    "CloudFile", [("rules", _RULES_TABLE, _RULES_TABLE())], bases=(SettingsFile,), frozen=True, kw_only=True
)


class _HttpLimits(msgspec.Struct):
    http: HttpTable


def find(given: Path | None, data_dir: Path | None) -> Path | None:
    """Return the settings file of a process: the given one, else that of the data directory, else the machine's.

    None: there is none, and the default cloud is meant.
    """
    if given is not None:
        return given
    usual = [*([data_dir / NAME] if data_dir else []), SYSTEM]
    return next((file for file in usual if file.exists()), None)


def load(path: Path | None, *, needs_cells: bool = True) -> CloudConfig:
    """Read a file; None: the default cloud. needs_cells: refuse a file without cells, unless hosts join at a bus.

    Raises: Invalid.
    """
    name = str(path) if path else "the default cloud.toml"
    tables = _parsed(name, _text(path))
    if isinstance(tables.get("rules"), dict):
        tables["rules"] = under_new_names(tables["rules"])
    try:
        file: Any = msgspec.convert(tables, _CLOUD_FILE, strict=True)
    except msgspec.ValidationError as error:
        raise Invalid(f"{name}: {sentence(str(error), tables)}") from None
    if needs_cells and not (file.cells or file.bus.urls):
        raise Invalid(f"{name}: the file has no 'cell'; give it {MUST_BE['cell']}")
    own = {"live": file.moves.live.rules, "notifications": file.notifications.rules, "quota": file.quota.rules}
    rules = Rules(**msgspec.structs.asdict(file.rules), **own)
    values = {**msgspec.structs.asdict(file), "rules": rules, "rules_in_file": frozenset(tables.get("rules", {}))}
    config = with_files(name, CloudConfig(**values), path.absolute().parent if path else Path.cwd(), os.environ)
    check(name, config)
    return config


def http_limits(lines: Sequence[str]) -> HttpTable:
    """Parse limits of HTTP servers, each given as a line of [http]. Raises: Invalid."""
    tables = _parsed("--http-limit", "\n".join(["[http]", *lines]))
    try:
        return msgspec.convert(tables, _HttpLimits).http
    except msgspec.ValidationError as error:
        raise Invalid(f"--http-limit: {sentence(str(error), tables)}") from None


def _text(path: Path | None) -> str:
    if path is None:
        return resources.files("whimbrel").joinpath(DEFAULT_CLOUD).read_text()
    try:
        return path.read_text()
    except UnicodeDecodeError:
        raise Invalid(f"{path} is not a text file in UTF-8: give a cloud.toml") from None
    except OSError as error:
        raise Invalid(f"{path} cannot be read ({error.strerror}): name a file that is there and readable") from None


def _parsed(name: str, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{name} is not valid TOML: {error}; correct it there") from None
