"""Label and field selectors for stored entries: used by lists, watches and collection deletes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import orjson

from muster.apiserver.errors import bad_request
from muster.apiserver.objects import labels
from muster.apiserver.registry.resource import ServedResource
from muster.apiserver.request import ListOptions
from muster.kube.selectors import Selector, SelectorError, parse_field_selector, parse_label_selector
from muster.machinery.objects import Object
from muster.store.api import Entry


class Filter:
    """The selection of a request. `exact_name` is set if a field selector requires one name."""

    __slots__ = ("_fields", "_labels", "_names", "exact_name")

    def __init__(
        self,
        label_selector: Selector | None,
        fields: list[tuple[Callable[[Object], str], bool, str]],
        names: list[tuple[bool, bool, str]],
    ) -> None:
        self._labels = label_selector
        self._fields = fields
        self._names = names
        """(is metadata.name, must be equal, value): conditions on name and namespace, decided by the key."""
        self.exact_name = next((value for is_name, equal, value in names if is_name and equal), None)

    @property
    def matches_everything(self) -> bool:
        return self._labels is None and not self._fields and not self._names

    def select(self, entries: Sequence[Entry]) -> list[Entry]:
        """The entries that match."""
        if self._labels is None or self._names or self._fields:
            return [entry for entry in entries if self.matches(entry)]
        matches_labels = self._labels.compiled()
        return [entry for entry in entries if matches_labels(labels(entry))]

    def matches(self, entry: Entry) -> bool:
        for is_name, equal, value in self._names:
            namespace, _, name = entry.key.rpartition("/")
            if ((name if is_name else namespace) == value) != equal:
                return False
        if self._labels is not None and not self._labels.matches(labels(entry)):
            return False
        if self._fields:
            obj = orjson.loads(entry.value)
            return all((read(obj) == value) == equal for read, equal, value in self._fields)
        return True


_EVERYTHING = Filter(None, [], [])


def build_filter(resource: ServedResource, options: ListOptions) -> Filter:
    if not options.label_selector and not options.field_selector:
        return _EVERYTHING
    try:
        parsed = parse_label_selector(options.label_selector) if options.label_selector else None
        terms = parse_field_selector(options.field_selector) if options.field_selector else ()
    except SelectorError as error:
        raise bad_request(str(error)) from None
    fields: list[tuple[Callable[[Object], str], bool, str]] = []
    names: list[tuple[bool, bool, str]] = []
    for term in terms:
        path, value, equal = term.path, term.value, term.operator != "!="
        if not path and not value:
            continue  # kube-apiserver ignores a term that is only an operator
        if path in ("metadata.name", "metadata.namespace"):
            names.append((path == "metadata.name", equal, value))
        elif path in resource.selectable:
            fields.append((resource.selectable[path], equal, value))
        else:
            raise bad_request(_unknown_field(resource, path))
    return Filter(parsed, fields, names)


def _unknown_field(resource: ServedResource, path: str) -> str:
    if resource.is_custom or resource.selectable:
        return f"field label not supported: {path}"
    return f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'
