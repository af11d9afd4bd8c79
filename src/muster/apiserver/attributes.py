"""What a request asks for, in the terms authorization, admission and audit share."""

from __future__ import annotations

import msgspec


class Attributes(msgspec.Struct, frozen=True, gc=False):
    """A resource request (`resource` set) or a non-resource one (`path` only). `verb` is lower case."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def is_resource(self) -> bool:
        return bool(self.resource)

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource
