"""The libraries that Kubernetes 1.35 enables for every expression, and two that it enables for some or not at all."""

from __future__ import annotations

from muster.cel.library import costs
from muster.cel.library.authorization import AUTHORIZATION
from muster.cel.library.formats import FORMATS
from muster.cel.library.lists import KUBERNETES_LISTS, LISTS, SETS
from muster.cel.library.network import NETWORK
from muster.cel.library.optionals import OPTIONALS
from muster.cel.library.quantity import QUANTITY
from muster.cel.library.regex import REGEX
from muster.cel.library.registry import Library, overload
from muster.cel.library.semver import SEMVER
from muster.cel.library.standard import STANDARD, TWO_VARIABLE_COMPREHENSIONS
from muster.cel.library.strings import STRINGS
from muster.cel.library.urls import URLS
from muster.cel.syntax.macros import BINDING_MACROS
from muster.cel.types import STRING

KUBERNETES: tuple[Library, ...] = (
    STANDARD,
    URLS,
    REGEX,
    KUBERNETES_LISTS,
    AUTHORIZATION,
    OPTIONALS,
    QUANTITY,
    STRINGS,
    SETS,
    NETWORK,
    FORMATS,
    TWO_VARIABLE_COMPREHENSIONS,
    SEMVER,
    LISTS,
)

BINDINGS = Library("bindings", macros=BINDING_MACROS)
"""`cel.bind`, which Kubernetes does not enable."""

JSON_PATCH = Library(
    "kubernetes.jsonpatch",
    overloads=(
        (
            "jsonpatch.escapeKey",
            overload(
                "string_jsonpatch_escapeKey_string",
                (STRING,),
                STRING,
                lambda key: key.replace("~", "~0").replace("/", "~1"),
                cost=costs.first_argument,
            ),
        ),
    ),
)
"""For mutating admission policies."""
