"""Request bodies: one struct for each. Fields of Keystone that are not supported are ignored."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

Id = Annotated[str, Meta(max_length=64)]
Name = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"\S")]
Password = Annotated[str, Meta(max_length=4096)]


class DomainRef(msgspec.Struct):
    id: str | None = None
    name: str | None = None


class ProjectRef(msgspec.Struct):
    id: str | None = None
    name: str | None = None
    domain: DomainRef | None = None


class PasswordUser(msgspec.Struct):
    password: Password
    id: str | None = None
    name: str | None = None
    domain: DomainRef | None = None


class PasswordMethod(msgspec.Struct):
    user: PasswordUser


class TokenMethod(msgspec.Struct):
    id: str


class Proof(msgspec.Struct):
    methods: Annotated[list[str], Meta(min_length=1)]
    password: PasswordMethod | None = None
    token: TokenMethod | None = None


class Scope(msgspec.Struct):
    project: ProjectRef | None = None
    domain: dict[str, Any] | None = None
    system: dict[str, Any] | None = None
    unscoped: dict[str, Any] | None = None


class Auth(msgspec.Struct):
    identity: Proof
    scope: Scope | Literal["unscoped"] | None = None


class AuthBody(msgspec.Struct):
    auth: Auth


class NewUser(msgspec.Struct):
    name: Name
    domain_id: Id | None = None
    password: Password | None = None
    description: str | None = None
    email: str | None = None
    enabled: bool | None = None
    default_project_id: Id | None = None


class NewUserBody(msgspec.Struct):
    user: NewUser


class ChangedUser(msgspec.Struct):
    name: Name | UnsetType = UNSET
    password: Password | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    email: str | UnsetType | None = UNSET
    enabled: bool | UnsetType = UNSET
    default_project_id: Id | UnsetType | None = UNSET


class ChangedUserBody(msgspec.Struct):
    user: ChangedUser


class OwnPassword(msgspec.Struct):
    password: Password
    original_password: Password


class OwnPasswordBody(msgspec.Struct):
    user: OwnPassword


class NewProject(msgspec.Struct):
    name: Annotated[str, Meta(min_length=1, max_length=64, pattern=r"\S")]
    domain_id: Id | None = None
    description: str | None = None
    enabled: bool | None = None


class NewProjectBody(msgspec.Struct):
    project: NewProject


class ChangedProject(msgspec.Struct):
    name: Annotated[str, Meta(min_length=1, max_length=64, pattern=r"\S")] | UnsetType = UNSET
    description: str | UnsetType | None = UNSET
    enabled: bool | UnsetType = UNSET


class ChangedProjectBody(msgspec.Struct):
    project: ChangedProject


class NewRole(msgspec.Struct):
    name: Name
    description: str | None = None


class NewRoleBody(msgspec.Struct):
    role: NewRole
