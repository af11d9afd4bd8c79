"""Where things are: paths of collections and objects, and names that would lead elsewhere."""

from __future__ import annotations

import pytest

from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES


def test_a_path_names_a_collection_or_an_object_of_it() -> None:
    assert CONFIG_MAPS.path() == "/api/v1/configmaps"
    assert CONFIG_MAPS.path("app", "a/b", "status") == "/api/v1/namespaces/app/configmaps/a%2Fb/status"
    assert NAMESPACES.path("ignored", "app") == "/api/v1/namespaces/app"


@pytest.mark.parametrize(("namespace", "name"), [("app", ".."), ("app", "."), ("..", "a")])
def test_a_name_that_http_would_resolve_is_refused(namespace: str, name: str) -> None:
    with pytest.raises(ValueError, match="names nothing"):
        CONFIG_MAPS.path(namespace, name)
