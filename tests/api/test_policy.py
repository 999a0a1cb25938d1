"""Policy: Nova's defaults hold, an operator's file overrides them, and what cannot be understood stops the start."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.api.front import Front
from whimbrel.api.http.policy import DEFAULTS, RULES
from whimbrel.api.routes import ROUTES
from whimbrel.domain.errors import Forbidden, Invalid
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.http.policy import Policy
from whimbrel.http.routes import OPEN
from whimbrel.ports.services.identity import Principal, with_implied
from whimbrel.sim.cloud.cloud import PROJECT

POLICY = Policy.load(DEFAULTS)
MINE = {"project_id": "mine", "user_id": "me"}
YOURS = {"project_id": "yours", "user_id": "you"}


def principal(role: str) -> Principal:
    return Principal(
        user_id=UserId("me"), user_name="me", project_id=ProjectId("mine"), roles=with_implied([role] if role else [])
    )


@pytest.mark.parametrize(
    ("rule", "role", "mine", "yours"),
    [
        ("os_compute_api:servers:show", "reader", True, False),
        ("os_compute_api:servers:show", "", False, False),
        ("os_compute_api:servers:show", "admin", True, True),
        ("os_compute_api:servers:create", "reader", False, False),
        ("os_compute_api:servers:create", "member", True, False),
        ("os_compute_api:servers:resize", "member", True, False),
        ("os_compute_api:os-migrate-server:migrate", "member", False, False),
        ("os_compute_api:os-migrate-server:migrate", "manager", True, False),
        ("os_compute_api:os-migrate-server:migrate", "admin", True, True),
        ("os_compute_api:os-migrate-server:migrate:host", "manager", False, False),
        ("os_compute_api:os-migrate-server:migrate:host", "admin", True, True),
        ("compute:servers:resize:cross_cell", "admin", False, False),
        ("os_compute_api:os-keypairs:show", "", True, False),
        ("os_compute_api:os-keypairs:show", "admin", True, True),
        ("os_compute_api:limits", "", True, True),
        ("whimbrel:moves:retry", "manager", False, False),
        ("whimbrel:moves:retry", "admin", True, True),
        ("context_is_admin", "manager", False, False),
        ("service_or_admin", "service", True, True),
    ],
)
def test_the_defaults_are_novas(rule: str, role: str, mine: bool, yours: bool) -> None:
    assert POLICY.allows(rule, principal(role), MINE) is mine
    assert POLICY.allows(rule, principal(role), YOURS) is yours


def test_no_is_said_in_novas_words() -> None:
    with pytest.raises(Forbidden) as refusal:
        POLICY.check("os_compute_api:os-services:list", principal("member"), MINE)
    assert refusal.value.reason == "Policy doesn't allow os_compute_api:os-services:list to be performed."
    POLICY.check("os_compute_api:os-services:list", principal("admin"), MINE)


@pytest.mark.parametrize("rule", RULES)
def test_a_token_for_the_system_passes_no_rule_of_a_request(rule: str) -> None:
    admin = replace(principal("admin"), project_id=ProjectId(""), system_scope="all")
    assert not POLICY.allows(rule, admin, YOURS)
    assert POLICY.allows("context_is_admin", admin, YOURS)


async def test_requests_with_a_token_for_the_system(front: Front) -> None:
    server = await front.boot()
    for method, path in (
        *(("GET", "/servers/detail"), ("GET", f"/servers/{server}"), ("DELETE", f"/servers/{server}")),
        *(("GET", "/limits"), ("GET", "/os-services"), ("GET", "/os-keypairs"), ("GET", "/whimbrel/moves")),
    ):
        answer = await front.ask(method, path, who="admin@system")
        assert (answer.status_code, "Policy doesn't allow" in answer.text) == (403, True), path
    assert (await front.ask("GET", "/flavors", who="admin@system")).status_code == 200  # without a rule, as in Nova
    assert (await front.ask("GET", f"/{PROJECT}/servers", who="admin@system")).status_code == 400


def test_a_remembered_answer_is_only_for_the_same_question() -> None:
    for _ in range(2):
        assert POLICY.allows("os_compute_api:servers:show", principal("reader"), MINE)
        assert not POLICY.allows("os_compute_api:servers:show", principal("reader"), YOURS)
        assert not POLICY.allows("os_compute_api:servers:delete", principal("reader"), MINE)
        assert POLICY.allows("os_compute_api:servers:delete", principal("member"), MINE)
        assert not POLICY.allows("os_compute_api:servers:delete", principal("member"), {})


def load(directory: Path, text: str) -> Policy:
    file = directory / "policy.yaml"
    file.write_text(text)
    return Policy.load(DEFAULTS, file)


def test_a_file_overrides_one_rule_and_leaves_the_others(tmp_path: Path) -> None:
    policy = load(tmp_path, '"os_compute_api:os-services:list": "rule:project_reader_or_admin"\n')
    assert policy.allows("os_compute_api:os-services:list", principal("reader"), MINE)
    assert not policy.allows("os_compute_api:os-services:update", principal("reader"), MINE)


def test_a_base_rule_changes_all_that_refer_to_it(tmp_path: Path) -> None:
    policy = load(tmp_path, "context_is_admin: role:boss\n")
    assert not policy.allows("os_compute_api:os-services:list", principal("admin"), MINE)
    assert policy.allows("os_compute_api:os-services:list", principal("boss"), MINE)


def test_a_rule_of_ones_own_may_be_referred_to(tmp_path: Path) -> None:
    text = "operators: role:operator or user_id:me\nos_compute_api:servers:create: not rule:operators\n"
    assert not load(tmp_path, text).allows("os_compute_api:servers:create", principal("member"), MINE)


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}\n"])
def test_an_empty_file_is_fine(tmp_path: Path, text: str) -> None:
    assert load(tmp_path, text).allows("os_compute_api:servers:show", principal("reader"), MINE)


@pytest.mark.parametrize(
    ("rule", "answer"),
    [
        ('"@"', True),
        ('""', True),
        ('"!"', False),
        ("[]", True),
        ("[[role:reader, project_id:mine], [role:other]]", True),
        ("'''member'':%(role)s'", False),
        ("project_domain_id:default", True),
        ("project_id:%(nothing)s", False),
        ("(not role:x) and (role:reader or !)", True),
    ],
)
def test_the_language_is_oslo_policys(tmp_path: Path, rule: str, answer: bool) -> None:
    policy = load(tmp_path, f"os_compute_api:servers:show: {rule}\n")
    assert policy.allows("os_compute_api:servers:show", principal("reader"), MINE) is answer


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("a: [1, 2", "is not YAML"),
        ("- one\n- two\n", "no mapping"),
        ("1: role:admin\n", "no mapping"),
        ("os_compute_api:servers:shw: role:reader\n", "'os_compute_api:servers:shw'"),
        ("os_compute_api:servers:show: 7\n", "'os_compute_api:servers:show' is neither"),
        ("os_compute_api:servers:show:\n", "'os_compute_api:servers:show' is neither"),
        ("os_compute_api:servers:show: role:reader and\n", "cannot be understood"),
        ("os_compute_api:servers:show: reader\n", "cannot be understood"),
        ("os_compute_api:servers:show: (role:reader\n", "cannot be understood"),
        ("os_compute_api:servers:show: user_id:%(user_id)\n", "cannot be understood"),
        ("os_compute_api:servers:show: rule:admin_or_owner\n", "refers to 'admin_or_owner'"),
        ("os_compute_api:servers:show: rule:os_compute_api:servers:show\n", "refers to itself"),
        ("a: rule:b\nb: rule:a\n", "refers to itself"),
        ("os_compute_api:servers:show: is_admin:True\n", "asks for 'is_admin'"),
        ("os_compute_api:servers:show: http://example.org/\n", "asks for 'http'"),
    ],
)
def test_what_is_wrong_is_named_at_start(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(Invalid, match=r"policy\.yaml") as error:
        load(tmp_path, text)
    assert named in error.value.reason


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"missing\.yaml.*cannot be read"):
        Policy.load(DEFAULTS, tmp_path / "missing.yaml")


def test_every_route_has_a_rule_of_the_table() -> None:
    assert {route.rule for route in ROUTES if route.rule not in (None, OPEN)} <= set(RULES)


def test_cross_cell_moves_are_denied_to_all_by_default() -> None:
    assert RULES["compute:servers:resize:cross_cell"] == "!"
