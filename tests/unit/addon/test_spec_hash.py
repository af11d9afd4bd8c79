"""Hashes of configurations are Go's, to the last escape: vectors from upstream's function."""

from typing import Any

import pytest

from muster.addon.spec_hash import spec_hash

HEAD: dict[str, Any] = {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "resourceVersion": "7"}, "status": {"a": 1}}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            {"spec": {"agentInstallNamespace": "ns1", "customizedVariables": [{"name": "A", "value": "<b>&c"}]}},
            "e4da8dabd24bdb6b5f53647a1496200bfd8b49a5f5ac6ac02d61be3f50f7c80e",
        ),
        ({"data": {"k": "v"}}, "8338386bc05b6a51ed41f42870cfc13b265df8ff411ce98a33e4786e7cd96be8"),
        (
            {"spec": {"f": 1.5, "i": 3, "e": 1e21, "u": "\u2028"}},
            "d3fd4fa282192bf51986e953c3fad0b3be348ae58bd81481b89d7b9b4cecbbec",
        ),
    ],
)
def test_the_hash_is_of_everything_but_the_head_and_the_status(content: dict[str, Any], expected: str) -> None:
    assert spec_hash({**HEAD, **content}) == expected
    assert spec_hash({**content, "metadata": {"name": "other"}}) == expected
