"""Representations of resources: by microversion, and below /v2.1/whimbrel one class for each resource.

The API encodes these classes, the command line decodes them, and `api.http.openapi` documents them. Times are seconds
since 1970. UNSET: the field is left out.

Invariant: modules that commands import need msgspec only, so that commands start quickly. A field that is added has a
default, because the answers of older servers lack it. Unknown fields are ignored by clients.
"""
