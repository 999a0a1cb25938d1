"""The rules of cloud.toml: [rules] and [rules.scheduler], their permitted values, and unsupported rules of Nova."""

from collections.abc import Collection
from typing import Annotated, Any

import msgspec
import structlog
from msgspec import NODEFAULT, Meta, field

from whimbrel.domain.errors import Invalid
from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.ports.cloud import Rules
from whimbrel.scheduling.filters import by_name
from whimbrel.scheduling.filters.ratios import ratios
from whimbrel.scheduling.weighers import by_name as weighers
from whimbrel.settings.value_types import Table

log = structlog.get_logger(__name__)

LEAST_RULE: dict[str, float] = {
    "shelved_offload_time_s": -1,
    "max_attempts": 1,
    "step_timeout_s": 1,
    "lease_s": 0.5,
    "cell_timeout_s": 0.1,
    "cpu_allocation_ratio": 0.001,
    "ram_allocation_ratio": 0.001,
    "disk_allocation_ratio": 0.001,
    "key_pairs_quota": -1,
}
"""The minimum of a rule; 0 if it is not listed."""
MOST_RULE = 1_000_000

RATIOS = {"image_props_weight_setting": "os_distro=2", "metrics_weight_setting": "cpu.percent=-1.0"}
"""Rules that are lists of NAME=NUMBER, with an example."""


OWN_TABLES = ("live", "guests", "notifications", "quota")
"""Rules with tables of their own: [moves.live], [guests], [notifications] and [quota]."""

RENAMED = {"patience_s": "step_timeout_s"}
"""Old names of rules, which 0.2 still reads."""


def under_new_names(rules: dict[str, Any]) -> dict[str, Any]:
    """Return the rules of a file under their present names. A rule with both names keeps both, and is refused."""
    renamed = {old: new for old, new in RENAMED.items() if old in rules and new not in rules}
    for old, new in renamed.items():
        log.warning("a rule of cloud.toml has a new name", old=old, new=new)
    return {renamed.get(key, key): value for key, value in rules.items()}


def limited_rules() -> Any:
    """Return a table type with the fields of Rules and the minimum of each."""
    fields: list[tuple[str, Any, Any]] = []
    for rule in (rule for rule in msgspec.structs.fields(Rules) if rule.name not in OWN_TABLES):
        limit = Meta(ge=LEAST_RULE.get(rule.name, 0), le=MOST_RULE)
        limited = Annotated[rule.type, limit] if rule.type in (int, float) else rule.type
        table = field(default_factory=rule.default_factory) if rule.default is NODEFAULT else rule.default
        fields.append((rule.name, limited, table))
    return msgspec.defstruct("RulesTable", fields, bases=(Table,), frozen=True, kw_only=True)


def rule_must_be(key: str) -> str:
    kind = {rule.name: rule.type for rule in msgspec.structs.fields(Rules)}[key]
    if kind not in (int, float):
        return "true or false" if kind is bool else "a text"
    number = "a whole number" if kind is int else "a number"
    return f"{number} from {LEAST_RULE.get(key, 0):g} to {MOST_RULE}"


# Rules of the scheduler


def scheduler_rule_must_be(key: str) -> str:
    if key == "enabled_filters":
        return f"a list of filters' names: {_known_filters()}"
    kind = {rule.name: msgspec.inspect.type_info(rule.type) for rule in msgspec.structs.fields(SchedulerRules)}[key]
    match kind:
        case msgspec.inspect.BoolType():
            return "true or false"
        case msgspec.inspect.IntType():
            return f"a whole number from {kind.ge} to {kind.le}"
        case msgspec.inspect.FloatType():
            return f"a number from {kind.ge:g} to {kind.le:g}"
        case msgspec.inspect.StrType():
            return "a text"
    return "a list of texts"


def not_there(key: str) -> str | None:
    """Return why a rule of Nova's scheduler is not supported; None: Nova has no such rule either."""
    return weighers.MISSING.get(key)


def wrong_with(rules: SchedulerRules, hosts: Collection[str]) -> str | None:
    """Return an error in the scheduler's rules besides their types, or None. hosts: all hosts."""
    for name in rules.enabled_filters:
        if name not in by_name.FILTERS:
            return f"'enabled_filters' has '{name}', which is not there; use some of: {_known_filters()}"
    for key, such in RATIOS.items():
        try:
            ratios(getattr(rules, key))
        except Invalid as mistake:
            return f"'{key}': {mistake.reason}; write it such as '{such}'"
    for host in rules.isolated_hosts:
        if host not in hosts:
            return (
                f"'isolated_hosts' has '{host}', and no host is called that; name one that the file has, or remove it"
            )
    return None


def _known_filters() -> str:
    return ", ".join(by_name.FILTERS)
