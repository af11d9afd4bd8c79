"""The filter Predicate: a cluster must match one of a placement's predicates, by labels, claims and expressions together.

A placement without predicates matches every cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from muster.api.cluster.v1beta1 import ClusterPredicate
from muster.cel import Program
from muster.kube.selectors import SelectorError
from muster.placement.expressions import MOST_EXPRESSIONS, ClusterValue, ExpressionError, budget_of, compiled, first_unmet
from muster.placement.misconfiguration import Misconfigured
from muster.placement.scores import ScoreReader
from muster.placement.selection import Selection
from muster.placement.snapshot import Candidate
from muster.placement.stopwatch import UNMEASURED, Stopwatch

NAME: Final = "Predicate"


class _Predicate:
    def __init__(self, predicate: ClusterPredicate) -> None:
        wanted = predicate.required_cluster_selector
        try:
            self.selection = Selection.of(wanted.label_selector, wanted.claim_selector)
            self.programs: tuple[Program, ...] = tuple(map(compiled, wanted.cel_selector.cel_expressions))
        except (SelectorError, ExpressionError) as error:
            raise Misconfigured(NAME, str(error)) from error
        self.selects: Callable[[Candidate], bool] = self.selection.compiled()


class Predicates:
    name: ClassVar[str] = NAME

    def __init__(self, predicates: Sequence[ClusterPredicate], scores: ScoreReader, stopwatch: Stopwatch = UNMEASURED) -> None:
        """Raises Misconfigured."""
        expressions = sum(len(one.required_cluster_selector.cel_selector.cel_expressions) for one in predicates)
        if expressions > MOST_EXPRESSIONS:
            raise Misconfigured(
                NAME, f"predicates have {expressions} expressions, but at most {MOST_EXPRESSIONS} are read: join some by &&"
            )
        self._predicates = tuple(map(_Predicate, predicates))
        self._scores = scores
        self._stopwatch = stopwatch
        self._with_expressions = any(predicate.programs for predicate in self._predicates)
        self._cost = 0

    def left(self, candidates: list[Candidate]) -> list[Candidate]:
        if not self._predicates:
            return candidates
        if self._with_expressions:
            self._cost = budget_of(len(candidates))
            with self._stopwatch.expressions():
                return [one for one in candidates if self._matches(one)]
        if len(self._predicates) == 1:
            return self._predicates[0].selection.select(candidates)
        tests = [predicate.selects for predicate in self._predicates]
        return [candidate for candidate in candidates if any(test(candidate) for test in tests)]

    def _matches(self, candidate: Candidate) -> bool:
        value: ClusterValue | None = None
        for predicate in self._predicates:
            if not predicate.selects(candidate):
                continue
            if not predicate.programs:
                return True
            value = value or self._value(candidate)
            if first_unmet(predicate.programs, value, self._cost) is None:
                return True
        return False

    def _value(self, candidate: Candidate) -> ClusterValue:
        return ClusterValue(candidate.name, candidate.document(), self._scores)

    def reason(self, candidate: Candidate) -> str:
        problems = [self._problem(predicate, candidate) for predicate in self._predicates]
        if len(problems) == 1:
            return problems[0]
        return "; ".join(f"predicates[{index}]: {problem}" for index, problem in enumerate(problems))

    def _problem(self, predicate: _Predicate, candidate: Candidate) -> str:
        unmet = next(predicate.selection.unmet(candidate), None)
        return unmet or first_unmet(predicate.programs, self._value(candidate), self._cost) or ""
