"""Usage and limits of a project. Source: Glance's quota usage API, with the names of its unified limits."""

from whimbrel.embedded.image.request import Call
from whimbrel.http.reply import Reply

MIB = 1 << 20
NO_LIMIT = -1


async def show(call: Call) -> Reply:
    """Show the usage of the requester's project, in images and in MiB. Staging is not supported."""
    project, allowance = call.principal.project_id, call.service.allowance
    used, limits = await call.store.usage(project), allowance.limits
    usage = {
        "image_size_total": (used.size_bytes // MIB, limits.size_bytes // MIB if limits.size_bytes >= 0 else NO_LIMIT),
        "image_stage_total": (0, NO_LIMIT),
        "image_count_total": (used.images, limits.images),
        "image_count_uploading": (allowance.uploading(project), NO_LIMIT),
    }
    return Reply({"usage": {name: {"usage": used, "limit": limit} for name, (used, limit) in usage.items()}})
