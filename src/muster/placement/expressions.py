"""CEL expressions about a cluster: `managedCluster`, the whole object, its `scores("name")`, and `"text".parseJSON()`.

The environment is upstream's: the standard library and the Kubernetes libraries of sdk-go's placement environment. One evaluation
has Kubernetes' cost limit for one call. All expressions of a selector together have, per cluster, Kubernetes' limit for one object,
and less if there are many clusters: each has an equal share of the budget of a scheduling run. So neither a placement nor a
cluster's agent, which writes the data, can delay others, and the cost of one cluster does not affect another. An expression that
fails on a cluster, exceeds its cost or is no boolean does not select that cluster.

`ReferencedData` is the data that an expression may read, found in its syntax tree: paths below `managedCluster`, and names of
AddOnPlacementScores. It is never too small; in case of doubt it is larger than necessary. Compiled expressions are cached by their
text, in a bounded cache of the environment.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeGuard

from muster.api import Document
from muster.api.cluster.v1alpha1 import Score
from muster.cel import (
    DYN,
    RUNTIME_COST_BUDGET,
    STRING,
    CelError,
    CompileError,
    CostBudget,
    Environment,
    InstantiationError,
    Library,
    Program,
    list_type,
    map_type,
)
from muster.cel.checker.validators import children
from muster.cel.errors import EvaluationError
from muster.cel.library import costs
from muster.cel.library.registry import method
from muster.cel.syntax.ast import Call, Ident, Literal, Node, Select
from muster.cel.values import MISSING, MapView, equals
from muster.placement.scores import NoScores, ScoreReader

CLUSTER: Final = "managedCluster"
_SCORES: Final = "scores"
_PASS_BUDGET: Final = 50_000_000
"""The cost of a selector's expressions on all clusters together: seconds of one processor."""
_LEAST_BUDGET: Final = 10_000
"""The least budget per cluster, for any number of clusters: a hundred times the usual cost."""
_CALL_COST: Final = 20
"""Charged for each evaluation; the language charges nothing for one that reads nothing."""
MOST_EXPRESSIONS: Final = 500
"""Per placement: the size of the cache."""
_COMPILING: Final = threading.Lock()
"""The cache of compiled expressions is for one thread at a time."""


class ExpressionError(ValueError):
    """The text is no valid expression; the message is upstream's."""


def compiled(text: str) -> Program:
    """Raises ExpressionError."""
    try:
        with _COMPILING:
            return _environment().compile(text)
    except InstantiationError as error:
        raise ExpressionError(f"instantiation failed: {error}") from error
    except CompileError as error:
        raise ExpressionError(f"compilation failed: {error}") from error


def budget_of(clusters: int) -> int:
    """The budget of a selector's expressions on each cluster, for this number of clusters."""
    return min(RUNTIME_COST_BUDGET, max(_LEAST_BUDGET, _PASS_BUDGET // max(clusters, 1)))


def first_unmet(programs: Iterable[Program], cluster: ClusterValue, cost: int) -> str | None:
    """Why the first unmet expression does not select the cluster; None if all select it."""
    budget, variables = CostBudget(cost), {CLUSTER: cluster}
    for program in programs:
        budget.remaining -= _CALL_COST
        try:
            result = program.evaluate(variables, budget)
        except CelError as error:
            return f"expression {program.text!r} fails: {error}"
        if result is not True:
            return f"expression {program.text!r} is {'false' if result is False else 'not a truth value'}"
    return None


# Referenced data ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReferencedData:
    paths: frozenset[tuple[str, ...]] = frozenset()
    """Paths of a cluster's fields, with everything below them; the empty path is the whole cluster."""
    scores: frozenset[str] | None = frozenset()
    """Names of AddOnPlacementScores; None for all."""

    def __or__(self, other: ReferencedData) -> ReferencedData:
        scores = None if self.scores is None or other.scores is None else self.scores | other.scores
        return ReferencedData(self.paths | other.paths, scores)


def referenced_data(program: Program) -> ReferencedData:
    data, pending = ReferencedData(), [program.tree]
    seen: set[int] = set()
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Call) and node.name == _SCORES and node.target is not None:
            data |= ReferencedData(scores=frozenset({node.args[0].value}) if _is_text(node.args[0]) else None)
            pending += node.args if _is_cluster(node.target) else [node.target, *node.args]
        elif (path := _path(node)) is not None:
            data |= ReferencedData(frozenset({path}))
        else:
            pending += children(node)
    return data


def _path(node: Node) -> tuple[str, ...] | None:
    """The path of a node that consists of constant field selections of the cluster."""
    steps: list[str] = []
    while not _is_cluster(node):
        if isinstance(node, Select):
            steps.append(node.field)
            node = node.operand
        elif isinstance(node, Call) and node.name in ("_[_]", "_?._", "_[?_]") and _is_text(node.args[1]):
            steps.append(node.args[1].value)
            node = node.args[0]
        else:
            return None
    return tuple(reversed(steps))


def _is_cluster(node: Node) -> bool:
    return isinstance(node, Ident) and node.name == CLUSTER


def _is_text(node: Node) -> TypeGuard[Literal]:
    return isinstance(node, Literal) and isinstance(node.value, str)


# The language ----------------------------------------------------------------------------------------------------------------


class ClusterValue(MapView):
    """A cluster as the value of `managedCluster`: its document, and the scores it has."""

    __slots__ = ("_document", "_name", "_reader")

    def __init__(self, name: str, document: Document, reader: ScoreReader) -> None:
        self._name = name
        self._document = document
        self._reader = reader

    def find(self, key: Any) -> Any:
        return self._document.get(key, MISSING) if key.__class__ is str else MISSING

    def keys(self) -> list[Any]:
        return list(self._document)

    def __len__(self) -> int:
        return len(self._document)

    def equals(self, other: Any) -> bool:
        return equals(self._document, other._document if isinstance(other, ClusterValue) else other)

    def scores(self, name: str) -> Sequence[Score]:
        found = self._reader.read(self._name, name)
        if isinstance(found, NoScores):
            raise EvaluationError(f"failed to get score: AddOnPlacementScore {name} of the cluster is {found.value}")
        return found


def _scores(cluster: Any, name: str) -> list[Document]:
    if not isinstance(cluster, ClusterValue):
        raise EvaluationError(f"failed to get score: only {CLUSTER} has scores")
    return [{"name": score.name, "value": score.value} for score in cluster.scores(name)]


def _parse_json(text: str) -> Any:
    """As Go decodes JSON into an interface: every number is a double."""
    try:
        return json.loads(text, parse_int=_double, parse_float=_double, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise EvaluationError(f"failed to parse json: {error}") from None


def _double(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"cannot read number {text[:32]} as a double")
    return value


def _refuse(text: str) -> float:
    raise ValueError(f"invalid value {text}")


@cache
def _environment() -> Environment:
    # Imported with the first expression: most placements have none.
    from muster.cel.library.formats import FORMATS
    from muster.cel.library.lists import KUBERNETES_LISTS
    from muster.cel.library.network import NETWORK
    from muster.cel.library.optionals import OPTIONALS
    from muster.cel.library.quantity import QUANTITY
    from muster.cel.library.regex import REGEX
    from muster.cel.library.semver import SEMVER
    from muster.cel.library.standard import STANDARD
    from muster.cel.library.strings import STRINGS
    from muster.cel.library.urls import URLS

    # Kubernetes uses an older version of the strings library.
    strings = (*STRINGS.overloads, ("reverse", method("string_reverse", (STRING,), STRING, lambda text: text[::-1])))
    kubernetes = (
        STANDARD,
        Library(STRINGS.name, strings, STRINGS.types, STRINGS.macros),
        OPTIONALS,
        KUBERNETES_LISTS,
        REGEX,
        URLS,
        QUANTITY,
        NETWORK,
        FORMATS,
        SEMVER,
    )
    clusters = Library(
        "open-cluster-management.managedcluster",
        overloads=((_SCORES, method("cluster_scores", (DYN, STRING), list_type(DYN), _scores, costs.new_maps)),),
    )
    texts = Library(
        "open-cluster-management.json",
        overloads=(("parseJSON", method("parse_json_string", (STRING,), DYN, _parse_json, costs.parsed)),),
    )
    return Environment({CLUSTER: map_type(STRING, DYN)}, (*kubernetes, clusters, texts), plain_literals=True)
