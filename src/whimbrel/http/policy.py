"""Policy rules in the language of oslo.policy: the defaults of a service, overridden by an operator's file.

Invariant: a rule that cannot be parsed is an error at start; it never allows or refuses a request silently.

The rules of requests are for tokens of projects: a token for the system passes none of them, whatever a file says.
Source: Nova 34 and Placement 16, whose rules all have the scope type `project`.

oslo.policy parses and evaluates the rules. Results are cached: they depend only on the rule, principal and target.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import yaml

# The parser and its checks alone: the Enforcer around them reads files while requests wait, and its import takes
# three times as long.
from oslo_policy import _checks, _parser

from whimbrel.domain.errors import Forbidden, Invalid
from whimbrel.ports.services.identity import Principal

MOST_ANSWERS = 20_000

Rule = _checks.BaseCheck


class Policy:
    """Parsed rules and their cached results."""

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self._rules = dict(rules)
        self._finder: Any = SimpleNamespace(rules=self._rules)  # the only attribute of an Enforcer that checks read
        self._answers: dict[tuple[Any, ...], bool] = {}

    @classmethod
    def load(cls, defaults: Mapping[str, str], path: Path | None = None) -> "Policy":
        """Load the defaults, overridden by the rules of the file. Raises: Invalid: naming file and rule."""
        own = {} if path is None else _read(path)
        rules = {name: _parsed(text, name, "the defaults") for name, text in defaults.items()}
        unknown = set(own) - set(rules)
        rules |= {name: _parsed(text, name, str(path)) for name, text in own.items()}
        for name in own:
            _examine(name, rules, str(path))
        referred = {name for rule in rules.values() for name in _references(rule)}
        if useless := sorted(unknown - referred):
            raise Invalid(f"{path}: there is no rule {useless[0]!r}, and no other rule refers to it.")
        return cls(rules)

    def allows(self, rule: str, principal: Principal, target: Mapping[str, str]) -> bool:
        """Check whether the principal passes the rule. target: the owner of the resource, as project_id and user_id."""
        key = (
            *(rule, principal.user_id, principal.project_id, principal.roles),
            *(principal.user_domain_id, principal.project_domain_id, principal.system_scope),
            *target.items(),
        )
        answer = self._answers.get(key)
        if answer is None:
            answer = self._evaluate(rule, principal, target)
            if len(self._answers) >= MOST_ANSWERS:
                self._answers.clear()
            self._answers[key] = answer
        return answer

    def check(self, rule: str, principal: Principal, target: Mapping[str, str]) -> None:
        """Raises: Forbidden: the principal does not pass the rule."""
        if not self.allows(rule, principal, target):
            raise Forbidden(f"Policy doesn't allow {rule} to be performed.")

    def _evaluate(self, rule: str, principal: Principal, target: Mapping[str, str]) -> bool:
        assert rule in self._rules, f"{rule} is not in the table"
        if principal.system_scope and ":" in rule:  # rules that others refer to have no scope
            return False
        return bool(self._rules[rule](dict(target), _credentials(principal), self._finder, rule))


def _credentials(principal: Principal) -> dict[str, Any]:
    """Return the attributes of the principal that a rule can refer to."""
    return {
        "user_id": principal.user_id,
        "project_id": principal.project_id,
        "user_domain_id": principal.user_domain_id,
        "project_domain_id": principal.project_domain_id,
        "system_scope": principal.system_scope or None,
        "roles": sorted(principal.roles),
    }


ATTRIBUTES: Final = frozenset(_credentials(Principal(user_id="", user_name="", project_id="")))  # type: ignore[arg-type]


def _read(path: Path) -> dict[str, Any]:
    """Read an operator's file: rule name -> text. The file may be empty."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Invalid(f"{path}: the policy file cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Invalid(f"{path}: the policy file is not YAML: {' '.join(str(error).split())}") from error
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise Invalid(f"{path}: the policy file is no mapping of rule names to rules.")
    return content


def _parsed(text: Any, name: str, source: str) -> Rule:
    """Parse one rule. The parser itself replaces unreadable text by a rule that always refuses."""
    if text is None or not (isinstance(text, str) or _is_list_of_lists(text)):
        raise Invalid(f"{source}: rule {name!r} is neither text nor a list of lists.")
    _checks.extension_checks = {}  # searching other packages for checks takes as long as the rest of this function
    rule = _parser.parse_rule(text)
    if _count_refusals(rule) != _count_exclamation_marks(text):
        raise Invalid(f"{source}: rule {name!r} cannot be understood: {text}")
    return rule


def _is_list_of_lists(value: Any) -> bool:
    """Check whether it is a rule in the older form of the language: a list (or) of lists (and)."""
    return isinstance(value, list) and all(
        isinstance(part, str) or (isinstance(part, list) and all(isinstance(word, str) for word in part))
        for part in value
    )


def _count_refusals(rule: Rule) -> int:
    return sum(isinstance(part, _checks.FalseCheck) for part in _parts(rule))


def _count_exclamation_marks(text: Any) -> int:
    if isinstance(text, str):
        return [word.strip("()") for word in text.split()].count("!")
    return sum(_count_exclamation_marks(part) for part in text)


def _parts(rule: Rule) -> Iterator[Rule]:
    """Iterate over a rule and its parts, without following references."""
    yield rule
    inner = [rule.rule] if isinstance(rule, _checks.NotCheck) else getattr(rule, "rules", ())
    for part in inner:
        yield from _parts(part)


def _references(rule: Rule) -> Iterator[str]:
    return (part.match for part in _parts(rule) if isinstance(part, _checks.RuleCheck))


def _examine(name: str, rules: Mapping[str, Rule], source: str, above: tuple[str, ...] = ()) -> None:
    """Follow a rule's references. Raises: Invalid: a reference is missing or circular, or a check can never be true."""
    if name in above:
        raise Invalid(f"{source}: rule {name!r} refers to itself: {' -> '.join((*above, name))}")
    for part in _parts(rules[name]):
        if isinstance(part, _checks.Check) and not _can_be_filled_in(part.match):
            raise Invalid(f"{source}: rule {name!r} cannot be understood: {part.match!r}")
        if isinstance(part, _checks.RuleCheck):
            if part.match not in rules:
                raise Invalid(f"{source}: rule {name!r} refers to {part.match!r}, which is not there.")
            _examine(part.match, rules, source, (*above, name))
        elif isinstance(part, _checks.GenericCheck) and not _is_known(part.kind):
            known = ", ".join(sorted(ATTRIBUTES - {"roles"}))
            raise Invalid(f"{source}: rule {name!r} asks for {part.kind!r}; it can ask for role, rule, {known}.")


class _AnyTarget(dict[str, str]):
    """A target that has every attribute."""

    def __missing__(self, key: str) -> str:
        return key


def _can_be_filled_in(match: str) -> bool:
    """Check whether the %(name)s placeholders of the text are well formed."""
    try:
        match % _AnyTarget()
    except (ValueError, TypeError):
        return False
    return True


def _is_known(text: str) -> bool:
    """Check whether the left side of a comparison is an attribute of principals, or a literal such as 'text' or
    True.
    """
    if text in ATTRIBUTES:
        return True
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return False
    return True
