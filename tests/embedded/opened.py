"""The embedded identity and image services behind one client, as a process mounts them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.routing import Mount

from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.engine.schema import create_all
from whimbrel.adapters.sql.identity.store import SqlIdentity
from whimbrel.adapters.sql.image_store import SqlImages
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.embedded.identity import Catalog, Service, identity_app
from whimbrel.embedded.identity.attempts import Attempts
from whimbrel.embedded.identity.passwords import hash_now
from whimbrel.embedded.image import ImageService, image_app
from whimbrel.embedded.image.file_store import FileStore
from whimbrel.embedded.image.storage_limit import Allowance
from whimbrel.ports.services.identity import Assignment, Domain, NewToken, Population, Project, Role, User
from whimbrel.ports.services.images import NO_LIMITS, ImageLimits
from whimbrel.sim.world.clock import JumpingClock
from whimbrel.sim.world.ids import SeededIds

CATALOG = Catalog(
    services=(
        Service(type="identity", name="keystone", url="http://cloud/identity/v3"),
        Service(type="image", name="glance", url="http://cloud/image"),
        Service(type="compute", name="nova", url="http://cloud/compute/v2.1"),
    )
)
PEOPLE = {"ann": ("p1", "member"), "bob": ("p2", "member"), "root": ("p0", "admin"), "eve": ("p1", "reader")}
ROLES = ("admin", "manager", "member", "reader", "service")
CHEAP = 4
"""Cost of a password's hash in tests: what is tested is what it guards."""


@dataclass
class Opened:
    """client speaks to the services; ann and bob are members of p1 and p2, eve a reader of p1, root is admin in p0."""

    client: httpx.AsyncClient
    clock: JumpingClock
    store: SqlIdentity

    async def ask(self, who: str, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """Ask as one of the people; the body goes as JSON, and so do errors, unless headers ask for another type."""
        named = {"accept": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
        if who:
            named["X-Auth-Token"] = f"token of {who}"
        return await self.client.request(method, path, json=body, headers=named)


def person(name: str) -> User:
    return User(
        id=UserId(name),
        domain_id="default",
        name=name,
        default_project_id=PEOPLE[name][0],
        password_hash=hash_now(f"secret of {name}", CHEAP),
    )


def population() -> Population:
    return Population(
        domains=[Domain(id="default", name="Default")],
        roles=[Role(id=f"r-{name}", name=name) for name in ROLES],
        projects=[
            Project(id=ProjectId(name), domain_id="default", name=f"name of {name}") for name in ("p0", "p1", "p2")
        ],
        users=[person(name) for name in PEOPLE],
        assignments=[
            Assignment(user_id=UserId(name), project_id=ProjectId(project), role_id=f"r-{role}")
            for name, (project, role) in PEOPLE.items()
        ],
    )


@asynccontextmanager
async def opened(files_dir: Path, limits: ImageLimits = NO_LIMITS) -> AsyncIterator[Opened]:
    clock, ids = JumpingClock(), SeededIds(1)
    accounts, records = open_database("sqlite://", "identity"), open_database("sqlite://", "images")
    await create_all(accounts, "identity")
    await create_all(records, "images")
    store = SqlIdentity(accounts, clock)
    await store.populate(population())
    for name, (project, _) in PEOPLE.items():
        await store.issue(
            NewToken(
                text=f"token of {name}",
                user_id=name,
                project_id=project,
                methods=["password"],
                audit_ids=[f"audit-{name}"],
                expires_at=clock.now() + 3600,
            )
        )
    image_store = SqlImages(records)
    images = ImageService(image_store, FileStore(files_dir), clock, Allowance(image_store, limits))
    app = Starlette(
        routes=[
            Mount("/identity", identity_app(store, clock, ids, CATALOG, attempts=Attempts(clock, (CHEAP,)))),
            Mount("/image", image_app(images, store, ids)),
        ]
    )
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://cloud", follow_redirects=True
    ) as client:
        yield Opened(client, clock, store)
    await accounts.close()
    await records.close()
