"""The stories of moves that are run under every fault."""

from tools.scenarios.moves import Story

STORIES = (
    Story("resize, confirm", "confirm"),
    Story("resize, revert", "revert"),
    Story("resize, turned back", "turn back"),
    Story("resize to fewer cpus, confirm", "confirm", shrinks=True),
    Story("resize on the same host, confirm", "confirm", same_host=True),
    Story("resize on the same host, revert", "revert", same_host=True),
    Story("resize of a stopped server, confirm", "confirm", stopped=True),
    Story("resize of a stopped server, revert", "revert", stopped=True),
    Story("cold migration to a named host, confirm", "confirm", flavor=False, host="h2"),
    Story("cold migration, revert", "revert", flavor=False),
    Story(
        "cold migration of a stopped server to a named host, revert", "revert", stopped=True, flavor=False, host="h2"
    ),
    Story("resize with ports and volumes, confirm", "confirm", devices=True),
    Story("resize with ports and volumes, revert", "revert", devices=True),
    Story("resize with ports and volumes on the same host, revert", "revert", devices=True, same_host=True),
    Story("resize with a virtual function, confirm", "confirm", function=True),
    Story("resize with a virtual function, revert", "revert", function=True),
    Story("resize with devices of the flavor, confirm", "confirm", alias=True),
    Story("resize with devices of the flavor on the same host, revert", "revert", alias=True, same_host=True),
    Story("resize to another cell, confirm", "confirm", crosses=True),
    Story("resize to another cell, revert", "revert", crosses=True),
    Story("resize to another cell, turned back", "turn back", crosses=True),
    Story("resize of a stopped server to another cell, confirm", "confirm", crosses=True, stopped=True),
    Story("cold migration to a host of another cell, revert", "revert", crosses=True, flavor=False, host="h2"),
    Story("resize with ports and volumes to another cell, confirm", "confirm", crosses=True, devices=True),
    Story("resize with ports and volumes to another cell, revert", "revert", crosses=True, devices=True),
    Story("resize with a virtual function to another cell, revert", "revert", crosses=True, function=True),
    Story("resize with devices of the flavor to another cell, revert", "revert", crosses=True, alias=True),
    Story("resize of a server on a volume to another cell, confirm", "confirm", crosses=True, boots_from_volume=True),
    Story("resize of a server on a volume to another cell, revert", "revert", crosses=True, boots_from_volume=True),
    Story("resize with an ephemeral and a swap disk, confirm", "confirm", local_disks=True),
    Story(
        "resize of a server on a volume with an ephemeral and a swap disk on the same host, revert",
        "revert",
        local_disks=True,
        same_host=True,
        boots_from_volume=True,
    ),
    Story(
        "resize of a stopped server with an ephemeral and a swap disk to another cell, confirm",
        "confirm",
        crosses=True,
        stopped=True,
        local_disks=True,
    ),
    Story("resize with an ephemeral and a swap disk to another cell, revert", "revert", crosses=True, local_disks=True),
)
