"""Template functions of policies in addition to sprig's.

They are constants, so that a template is compiled once for all policies that contain it. Functions that read a cluster, or
depend on a run's options, are declared `late` here and bound for each run (see `lookups.py`). A denied function still exists, as
upstream: the template can be parsed, and fails at the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, NoReturn

from muster.gotemplate import Func, GoError
from muster.gotemplate.golang import yaml
from muster.gotemplate.limits import charge, charge_size
from muster.gotemplate.signature import ANY, FuncTable
from muster.gotemplate.sprig import SPRIG
from muster.gotemplate.sprig.numbers import to_int
from muster.gotemplate.values import ANY_MAP
from muster.machinery.golang.numbers import parse_bool
from muster.machinery.golang.unicode import trim_space
from muster.policy.resolver.errors import DeniedFunction, FunctionError, NewLinesNotAllowed

HOST_FUNCTIONS: Final = frozenset({"env", "expandenv"})
"""Always denied: they would return the controller's environment."""
MUTATORS: Final = frozenset({"set", "unset", "merge", "mustMerge", "mergeOverwrite", "mustMergeOverwrite"})
"""Functions that modify their map argument."""
SLOW_FUNCTIONS: Final = frozenset(
    {
        "bcrypt", "buildCustomCert", "derivePassword", "genCA", "genCAWithKey", "genPrivateKey", "genSelfSignedCert",
        "genSelfSignedCertWithKey", "genSignedCert", "genSignedCertWithKey", "getHostByName", "htpasswd",
    }
)  # fmt: skip
"""Functions whose single call can take long, or waits for the network."""
_ALIASES: Final = {
    "base64enc": "b64enc",
    "base64dec": "b64dec",
    "fromJSON": "fromJson",
    "mustFromJSON": "mustFromJson",
    "toJSON": "toJson",
    "mustToJSON": "mustToJson",
    "toRawJSON": "toRawJson",
    "mustToRawJSON": "mustToRawJson",
}
_YAML_NODE_STEPS: Final = 10
"""Cost of writing one value as YAML, in a template's steps."""

PURE: Final = FuncTable()


@PURE.add("autoindent", "string", "string")
def autoindent(_text: str) -> NoReturn:
    raise FunctionError("an unexpected error occurred where autoindent could not be processed")


@PURE.add("toInt", "any", "int")
def to_int_(value: Any) -> int:
    return to_int(value)


@PURE.add("toBool", "string", "bool")
def to_bool(text: str) -> bool:
    try:
        return parse_bool(text)
    except GoError:
        return False


@PURE.add("toLiteral", "string", "string")
def to_literal(text: str) -> str:
    if "\n" in text:
        raise NewLinesNotAllowed("new lines are not allowed in the string passed to the toLiteral function")
    return text


@PURE.add("toYAML toYaml", "any", "string")
def to_yaml(value: Any) -> str:
    _charge_nodes(value)
    text = yaml.dump(value)
    charge_size(len(text))
    return text.removesuffix("\n")


@PURE.add("fromYAML fromYaml", "string")
def from_yaml(text: str) -> Any:
    charge(len(text))
    return yaml.load(text)


def _charge_nodes(value: Any) -> None:
    """Charges the cost of a value before it is written. A value that contains itself is stopped by the limit of steps."""
    waiting = [value]
    while waiting:
        charge(_YAML_NODE_STEPS * len(waiting))
        deeper: list[Any] = []
        for item in waiting:
            if isinstance(item, dict):
                deeper += item.values()
            elif isinstance(item, (list, tuple)):
                deeper += item
        waiting = deeper


def _charged(function: Func) -> Func:
    """The function with the cost of one step before each call, so that its time is checked."""

    def call(*args: Any) -> Any:
        charge(1)
        return function.call(*args)

    return replace(function, call=call)


def _unbound(*_args: Any) -> NoReturn:
    raise GoError("the function is not available here")


def _late(count: int, result: str, *, variadic: bool = False) -> Func:
    return Func(_unbound, ("string",) * count, variadic, result, late=True)


LATE: Final[Mapping[str, Func]] = {
    "fromSecret": _late(3, "string"),
    "fromConfigMap": _late(3, "string"),
    "copySecretData": _late(2, "string"),
    "copyConfigMapData": _late(2, "string"),
    "fromClusterClaim": _late(1, "string"),
    "lookupClusterClaim": _late(1, "string"),
    "lookup": _late(5, ANY_MAP, variadic=True),
    "getNodesWithExactRoles": _late(1, ANY_MAP, variadic=True),
    "hasNodesWithExactRoles": _late(1, "bool", variadic=True),
    "protect": _late(1, "string"),
}


def _indent_by(additional: int) -> Func:
    def indent(spaces: int, text: str) -> str:
        if spaces + additional < 0:
            raise GoError("strings: negative Repeat count")
        charge_size(len(text) + (text.count("\n") + 2) * (spaces + additional))
        pad = "\n" + " " * (spaces + additional)
        return trim_space(pad + text.replace("\n", pad))

    return Func(indent, ("int", "string"), False, "string")


@lru_cache(maxsize=1024)
def _denied(name: str) -> Func:
    why = "is considered a security risk" if name in HOST_FUNCTIONS else "is not allowed"

    def denied(*_args: Any) -> NoReturn:
        raise DeniedFunction(f"use of denylisted template function: function '{name}' {why}")

    return Func(denied, (ANY,), variadic=True)


@lru_cache(maxsize=16)
def own_functions(additional_indentation: int) -> Mapping[str, Func]:
    """All functions without options, except sprig's."""
    aliases = {name: SPRIG[original] for name, original in _ALIASES.items()}
    slow = {name: _charged(SPRIG[name]) for name in SLOW_FUNCTIONS}
    return {**PURE, **LATE, **aliases, **slow, "indent": _indent_by(additional_indentation)}


def function_table(
    additional_indentation: int, custom: Mapping[str, Func], denylist: frozenset[str]
) -> Mapping[str, Func | Callable[..., Any]]:
    return {**own_functions(additional_indentation), **custom, **denied_functions(denylist)}


def denied_functions(denylist: frozenset[str]) -> Mapping[str, Func]:
    return {name: _denied(name) for name in sorted(denylist | HOST_FUNCTIONS)}
