"""The libraries that Kubernetes 1.35 enables for every expression."""

from __future__ import annotations

from muster.cel.library.optionals import OPTIONALS
from muster.cel.library.regex import REGEX
from muster.cel.library.registry import Library
from muster.cel.library.standard import STANDARD, TWO_VARIABLE_COMPREHENSIONS

KUBERNETES: tuple[Library, ...] = (STANDARD, OPTIONALS, REGEX, TWO_VARIABLE_COMPREHENSIONS)
