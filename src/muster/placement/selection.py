"""Selectors of clusters by labels and claims, parsed once per scheduling run and evaluated for every cluster.

Claims are matched like labels. An invalid selector is a `SelectorError`, which the caller attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import compress
from operator import attrgetter

from muster.api.cluster.v1beta1 import ClaimSelector
from muster.api.meta import LabelSelector
from muster.api.resource import known_fields
from muster.kube.selectors import EVERYTHING, Selector, from_label_selector_object
from muster.placement.snapshot import Candidate

_NO_LABELS = LabelSelector()
_NO_CLAIMS = ClaimSelector()
_LABELS: Callable[[Candidate], Mapping[str, str]] = attrgetter("labels")
_CLAIMS: Callable[[Candidate], Mapping[str, str]] = attrgetter("claims")


@dataclass(frozen=True)
class Selection:
    """Both must match."""

    labels: Selector
    claims: Selector

    @classmethod
    def of(cls, labels: LabelSelector, claims: ClaimSelector) -> Selection:
        """Raises SelectorError."""
        return cls(
            EVERYTHING if labels == _NO_LABELS else from_label_selector_object(known_fields(labels)),
            EVERYTHING if claims == _NO_CLAIMS else from_label_selector_object(known_fields(claims)),
        )

    def compiled(self) -> Callable[[Candidate], bool]:
        """A predicate for very many clusters."""
        by_labels, by_claims = self.labels.compiled(), self.claims.compiled()
        if self.claims.everything:
            return (lambda one: True) if self.labels.everything else lambda one: by_labels(one.labels)
        if self.labels.everything:
            return lambda one: by_claims(one.claims)
        return lambda one: by_labels(one.labels) and by_claims(one.claims)

    def select(self, candidates: list[Candidate]) -> list[Candidate]:
        """The matching clusters."""
        left = candidates
        if not self.labels.everything:
            left = list(compress(left, self.labels.matches_each(map(_LABELS, left))))
        if not self.claims.everything:
            left = list(compress(left, self.claims.matches_each(map(_CLAIMS, left))))
        return left

    def unmet(self, candidate: Candidate) -> Iterator[str]:
        """The requirements that a cluster does not meet, as text."""
        yield from _unmet("label", self.labels, candidate.labels)
        yield from _unmet("claim", self.claims, candidate.claims)


def _unmet(what: str, selector: Selector, values: Mapping[str, str]) -> Iterator[str]:
    for requirement in selector.requirements:
        if not requirement.matches(values):
            found = values.get(requirement.key)
            yield f"{what} {requirement.key} is {'not set' if found is None else repr(found)}, wanted is {requirement}"
