"""Representations of records: Keystone v3's JSON."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from whimbrel.ports.services.identity import (
    ApplicationCredential,
    Credential,
    Domain,
    Grant,
    Group,
    Project,
    Role,
    User,
)


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def domain(url: str, record: Domain) -> dict[str, Any]:
    return {
        **msgspec.structs.asdict(record),
        "tags": [],
        "options": {},
        "links": {"self": f"{url}/v3/domains/{record.id}"},
    }


def project(url: str, record: Project) -> dict[str, Any]:
    known = msgspec.structs.asdict(record)
    del known["extra"]
    return {
        **record.extra,
        **known,
        "is_domain": False,
        "parent_id": record.domain_id,
        "options": {},
        "links": {"self": f"{url}/v3/projects/{record.id}"},
    }


def user(url: str, record: User) -> dict[str, Any]:
    known = msgspec.structs.asdict(record)
    del known["password_hash"], known["extra"]
    if record.email is None:
        del known["email"]
    return {
        **record.extra,
        **known,
        "options": {},
        "password_expires_at": None,
        "links": {"self": f"{url}/v3/users/{record.id}"},
    }


def role(url: str, record: Role) -> dict[str, Any]:
    return {
        "id": record.id,
        "name": record.shown_name,
        "description": record.description,
        "domain_id": None,
        "options": {},
        "links": {"self": f"{url}/v3/roles/{record.id}"},
    }


def group(url: str, record: Group) -> dict[str, Any]:
    return {**msgspec.structs.asdict(record), "links": {"self": f"{url}/v3/groups/{record.id}"}}


def application_credential(url: str, record: ApplicationCredential, roles: Sequence[Role]) -> dict[str, Any]:
    return {
        "id": record.id,
        "name": record.name,
        "description": record.description,
        "user_id": record.user_id,
        "project_id": record.project_id,
        "roles": [
            {"id": each.id, "name": each.shown_name, "domain_id": None} for each in roles if each.name in record.roles
        ],
        "unrestricted": record.unrestricted,
        # without "Z", unlike in tokens: Gophercloud parses it as Keystone sends it
        "expires_at": None if record.expires_at is None else moment(record.expires_at).removesuffix("Z"),
        "links": {"self": f"{url}/v3/users/{record.user_id}/application_credentials/{record.id}"},
    }


def credential(url: str, record: Credential) -> dict[str, Any]:
    return {**msgspec.structs.asdict(record), "links": {"self": f"{url}/v3/credentials/{record.id}"}}


def listing(url: str, word: str, views: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a complete list; there are no further pages."""
    return {word: views, "links": {"self": f"{url}/v3/{word}", "next": None, "previous": None}}


def token(
    grant: Grant, domains: Sequence[Domain], roles: Sequence[Role], catalog: list[dict[str, Any]] | None
) -> dict[str, Any]:
    """Return a token's contents. catalog None: it is left out, as it is of unscoped tokens."""
    principal = grant.principal
    names = {record.id: record.name for record in domains}

    def of_domain(id_: str) -> dict[str, str]:
        return {"id": id_, "name": names.get(id_, id_)}

    view: dict[str, Any] = {
        "methods": grant.methods,
        "user": {
            "id": principal.user_id,
            "name": principal.user_name,
            "domain": of_domain(principal.user_domain_id),
            "password_expires_at": None,
        },
        "audit_ids": grant.audit_ids,
        "issued_at": moment(grant.issued_at),
        "expires_at": moment(principal.expires_at),
    }
    if principal.project_id:
        view["project"] = {
            "id": principal.project_id,
            "name": principal.project_name,
            "domain": of_domain(principal.project_domain_id),
        }
        view["is_domain"] = False
    elif principal.system_scope:
        view["system"] = {principal.system_scope: True}
    if principal.project_id or principal.system_scope:
        view["roles"] = [{"id": role.id, "name": role.shown_name} for role in roles if role.name in principal.roles]
        if catalog is not None:
            view["catalog"] = catalog
    return {"token": view}
