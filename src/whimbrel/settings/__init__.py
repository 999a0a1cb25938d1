"""The settings file, cloud.toml: cells, hosts, and the rules of the cloud.

Invariant: a file is accepted completely or not at all. Every error is one sentence that names the file, the location
and what to do.
"""

import tomllib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from whimbrel.domain.errors import Invalid
from whimbrel.ports.cloud import Rules
from whimbrel.settings.error_messages import sentence
from whimbrel.settings.rules import limited_rules, under_new_names
from whimbrel.settings.sections import CloudConfig, HttpTable, LibvirtHost, SimulatedHost
from whimbrel.settings.validation import check

__all__ = ["CloudConfig", "HttpTable", "LibvirtHost", "SimulatedHost", "http_limits", "load"]

DEFAULT_CLOUD = "cloud.toml"  # in the package: the cloud of `whimbrel up` without a file

_RULES_TABLE = limited_rules()
_CLOUD_FILE = msgspec.defstruct(
    "CloudFile", [("rules", _RULES_TABLE, _RULES_TABLE())], bases=(CloudConfig,), frozen=True, kw_only=True
)


class _HttpLimits(msgspec.Struct):
    http: HttpTable


def load(path: Path | None) -> CloudConfig:
    """Read a file; None: the default cloud. Raises: Invalid."""
    name = str(path) if path else "the default cloud.toml"
    tables = _parsed(name, _text(path))
    if isinstance(tables.get("rules"), dict):
        tables["rules"] = under_new_names(tables["rules"])
    try:
        config: Any = msgspec.convert(tables, _CLOUD_FILE, strict=True)
    except msgspec.ValidationError as error:
        raise Invalid(f"{name}: {sentence(str(error), tables)}") from None
    check(name, config)
    rules = Rules(**msgspec.structs.asdict(config.rules))
    return CloudConfig(**{**msgspec.structs.asdict(config), "rules": rules})


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
