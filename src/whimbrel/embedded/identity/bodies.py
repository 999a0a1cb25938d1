"""What request bodies have below their outer key. Unsupported fields of Keystone are ignored, but see `extras`."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

Id = Annotated[str, Meta(max_length=64)]
Name = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"\S")]
ShortName = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"\S")]  # of a project or a domain
Text = Annotated[str, Meta(min_length=1, max_length=255)]
Password = Annotated[str, Meta(max_length=4096)]


class Ref(msgspec.Struct):
    """A domain or a role, by its id or its name."""

    id: str | None = None
    name: str | None = None


class RefInDomain(Ref):
    """A project or a user, by its id, or by its name and its domain."""

    domain: Ref | None = None


class PasswordUser(RefInDomain, kw_only=True):
    password: Password


class PasswordMethod(msgspec.Struct):
    user: PasswordUser


class TokenMethod(msgspec.Struct):
    id: str


class CredentialProof(msgspec.Struct):
    secret: Password
    id: str | None = None
    name: str | None = None
    user: RefInDomain | None = None


class Proof(msgspec.Struct):
    methods: Annotated[list[str], Meta(min_length=1)]
    password: PasswordMethod | None = None
    token: TokenMethod | None = None
    application_credential: CredentialProof | None = None


class SystemScope(msgspec.Struct):
    """The system as a whole; its parts have no names yet, and Keystone takes any value for all of it."""

    all: bool = True


class Scope(msgspec.Struct):
    project: RefInDomain | None = None
    domain: dict[str, Any] | None = None
    system: SystemScope | None = None
    unscoped: dict[str, Any] | None = None


class Auth(msgspec.Struct):
    identity: Proof
    scope: Scope | Literal["unscoped"] | None = None


class NewUser(msgspec.Struct):
    name: Name
    domain_id: Id | None = None
    password: Password | None = None
    description: str | None = None
    email: str | None = None
    enabled: bool | None = None
    default_project_id: Id | None = None


class ChangedUser(msgspec.Struct):
    name: Name | UnsetType = UNSET
    password: Password | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    email: str | UnsetType | None = UNSET
    enabled: bool | UnsetType = UNSET
    default_project_id: Id | UnsetType | None = UNSET


class OwnPassword(msgspec.Struct):
    password: Password
    original_password: Password


Tag = Annotated[str, Meta(min_length=1, max_length=255, pattern="^[^,/]+$")]


class TagsBody(msgspec.Struct):
    tags: list[Tag]


class NewProject(msgspec.Struct):
    name: ShortName
    domain_id: Id | None = None
    parent_id: Id | None = None
    is_domain: bool | None = None
    tags: list[Tag] = []
    description: str | None = None
    enabled: bool | None = None


class ChangedProject(msgspec.Struct):
    name: ShortName | UnsetType = UNSET
    description: str | UnsetType | None = UNSET
    enabled: bool | UnsetType = UNSET


class ChangedTaggedProject(ChangedProject):
    tags: list[Tag] | UnsetType = UNSET


class NewNamed(msgspec.Struct):
    """A new role or group."""

    name: Name
    domain_id: Id | None = None
    description: str | None = None


class ChangedNamed(msgspec.Struct):
    """A changed role or group."""

    name: Name | UnsetType = UNSET
    description: str | UnsetType | None = UNSET


class NewDomain(msgspec.Struct):
    name: ShortName
    description: str | None = None
    enabled: bool | None = None
    explicit_domain_id: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")] | None = None


class NewApplicationCredential(msgspec.Struct):
    name: Name
    secret: Annotated[str, Meta(min_length=1, max_length=4096)] | None = None
    description: str | None = None
    expires_at: str | None = None  # ISO 8601, UTC
    roles: list[Ref] | None = None
    unrestricted: bool | None = None
    access_rules: list[dict[str, Any]] | None = None


class NewCredential(msgspec.Struct):
    user_id: Id
    type: Text
    blob: str
    project_id: Id | None = None


class ChangedCredential(msgspec.Struct):
    type: Text | UnsetType = UNSET
    blob: str | UnsetType = UNSET
    project_id: Id | UnsetType | None = UNSET


class Ec2Body(msgspec.Struct):
    tenant_id: Id


class NewService(msgspec.Struct):
    type: Text
    name: Annotated[str, Meta(max_length=255)] | None = None
    description: str | None = None
    enabled: bool | None = None


class ChangedService(msgspec.Struct):
    type: Text | UnsetType = UNSET
    name: Annotated[str, Meta(max_length=255)] | UnsetType = UNSET
    description: str | UnsetType | None = UNSET
    enabled: bool | UnsetType = UNSET


Interface = Literal["public", "internal", "admin"]
Url = Annotated[str, Meta(min_length=1, max_length=2048, pattern="^[a-z]+://")]


class NewEndpoint(msgspec.Struct):
    service_id: Id
    interface: Interface
    url: Url
    region_id: Text | None = None
    region: Text | None = None  # the former name of region_id
    enabled: bool | None = None


class ChangedEndpoint(msgspec.Struct):
    service_id: Id | UnsetType = UNSET
    interface: Interface | UnsetType = UNSET
    url: Url | UnsetType = UNSET
    region_id: Text | UnsetType | None = UNSET
    region: Text | UnsetType | None = UNSET
    enabled: bool | UnsetType = UNSET


LimitNumber = Annotated[int, Meta(ge=-1, le=2**31 - 1)]


class NewRegisteredLimit(msgspec.Struct, forbid_unknown_fields=True):
    service_id: Id
    resource_name: Name
    default_limit: LimitNumber
    region_id: Text | None = None
    description: str | None = None


class NewRegisteredLimitsBody(msgspec.Struct):
    registered_limits: Annotated[list[NewRegisteredLimit], Meta(min_length=1)]


class ChangedRegisteredLimit(msgspec.Struct, forbid_unknown_fields=True):
    service_id: Id | UnsetType = UNSET
    region_id: Text | UnsetType | None = UNSET
    resource_name: Name | UnsetType = UNSET
    default_limit: LimitNumber | UnsetType = UNSET
    description: str | UnsetType | None = UNSET


class NewLimit(msgspec.Struct, forbid_unknown_fields=True):
    service_id: Id
    resource_name: Name
    resource_limit: LimitNumber
    project_id: Id | None = None
    domain_id: Id | None = None
    region_id: Text | None = None
    description: str | None = None


class NewLimitsBody(msgspec.Struct):
    limits: Annotated[list[NewLimit], Meta(min_length=1)]


class ChangedLimit(msgspec.Struct, forbid_unknown_fields=True):
    resource_limit: LimitNumber | UnsetType = UNSET
    description: str | UnsetType | None = UNSET


class NewRegion(msgspec.Struct):
    id: Text | None = None
    description: str | None = None
    parent_region_id: Text | None = None


class ChangedRegion(msgspec.Struct):
    description: str | UnsetType | None = UNSET
    parent_region_id: Text | UnsetType | None = UNSET
