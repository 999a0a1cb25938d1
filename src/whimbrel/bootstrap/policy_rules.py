"""The policy rules of compute and Placement, for the tools of oslo.policy: the entry point `oslo.policy.policies`."""

from collections.abc import Iterator

from oslo_policy.policy import RuleDefault

from whimbrel.api.http import policy as compute
from whimbrel.api.own_routes import OWN_ROUTES
from whimbrel.api.routes import ROUTES
from whimbrel.placement_api import policy as placement


def list_rules() -> list[RuleDefault]:
    """Return every rule with its default, as `oslopolicy-sample-generator --namespace whimbrel` writes them."""
    defaults = {**compute.DEFAULTS, **placement.DEFAULTS["legacy"]}
    requests = rule_requests()
    scopes = {name: ["project"] if ":" in name else None for name in defaults}
    return [
        RuleDefault(name, text, "\n".join(requests.get(name, ())) or None, scope_types=scopes[name])
        for name, text in defaults.items()
    ]


def rule_requests() -> dict[str, list[str]]:
    """Return rule -> the requests of the compute API that it decides, such as "GET /servers"."""
    found: dict[str, dict[str, None]] = {}
    for route in dict.fromkeys((*ROUTES, *OWN_ROUTES)):
        if isinstance(route.rule, str):
            found.setdefault(route.rule, {})[" ".join(filter(None, (route.method, route.path, route.action)))] = None
    return {rule: list(each) for rule, each in found.items()}


def sections() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the name of each API and its rules with their defaults."""
    yield "Compute", dict(compute.DEFAULTS)
    yield "Placement", dict(placement.DEFAULTS["legacy"])
