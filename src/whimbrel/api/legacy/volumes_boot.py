"""/os-volumes_boot: an alias of the oldest routes below /servers, until 2.102."""

from collections.abc import Iterable, Iterator

import msgspec

from whimbrel.api.http.call import Route

LAST_MINOR = 102
PATHS = ("/servers", "/servers/detail", "/servers/{server_id}")
ACTIONS = ("confirmResize", "revertResize", "reboot", "resize", "rebuild", "createImage", "os-start", "os-stop",
           "trigger_crash_dump")  # fmt: skip


def volumes_boot(routes: Iterable[Route]) -> Iterator[Route]:
    """Return the routes that have a second name, under that name."""
    for route in routes:
        if route.path in PATHS or (route.path == "/servers/{server_id}/action" and route.action in ACTIONS):
            path = route.path.replace("/servers", "/os-volumes_boot", 1)
            yield msgspec.structs.replace(route, path=path, until=min(LAST_MINOR, route.until or LAST_MINOR))
