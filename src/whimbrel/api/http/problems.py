"""The error format of Nova's clients, and the headers of all answers."""

from collections.abc import Mapping

from whimbrel.api.http.microversions import MICROVERSIONS
from whimbrel.http.app import Shape
from whimbrel.http.problem import Problem
from whimbrel.http.reply import Reply
from whimbrel.http.request import Request

NAME_OF_STATUS: dict[int, str] = {
    400: "badRequest",
    401: "unauthorized",
    403: "forbidden",
    404: "itemNotFound",
    405: "badMethod",
    409: "conflictingRequest",
    413: "overLimit",
    415: "badMediaType",
    429: "overLimit",
    501: "notImplemented",
    503: "serviceUnavailable",
}

LONGEST_MESSAGE = 1000

VERSION_HEADERS = {
    minor: {
        "openstack-api-version": f"compute 2.{minor}",
        "x-openstack-nova-api-version": f"2.{minor}",
        "vary": "OpenStack-API-Version, X-OpenStack-Nova-API-Version",
    }
    for minor in MICROVERSIONS
}


def _refusal(_request: Request, problem: Problem) -> Reply:
    fault = {"code": problem.status, "message": problem.message[:LONGEST_MESSAGE]}
    retry = {"retry-after": "0"} if problem.status == 413 else {}
    name = NAME_OF_STATUS.get(problem.status, "computeFault")
    return Reply({name: fault}, problem.status, {**problem.headers, **retry})


def _headers(request: Request, _reply: Reply) -> Mapping[str, str]:
    ids = {"x-compute-request-id": request.id, "x-openstack-request-id": request.id}
    return ids if request.minor is None else ids | VERSION_HEADERS[request.minor]


SHAPE = Shape(refusal=_refusal, headers=_headers)
