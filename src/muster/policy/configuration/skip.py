"""`skipObject`: a function of managed templates that excludes the object for which they are resolved.

The object is excluded if it is called without an argument or with true; one such call suffices. The function is a constant that
each run binds anew, so that compiled templates are reused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from muster.gotemplate import Func, GoError
from muster.gotemplate.golang.fmt import show


class SkipObject:
    """Whether the object of one run is excluded."""

    def __init__(self) -> None:
        self.called = False

    def __call__(self, *skips: Any) -> str:
        if len(skips) > 1:
            raise GoError(f"expected one optional boolean argument but received {len(skips)} arguments")
        if not skips:
            self.called = True
        elif not self.called:
            if not isinstance(skips[0], bool):
                raise GoError(f"expected boolean but received '{show(skips[0])}'")
            self.called = skips[0]
        return ""


SKIP_OBJECT: Final[Mapping[str, Func]] = {"skipObject": Func(SkipObject(), variadic=True, result="string", late=True)}
