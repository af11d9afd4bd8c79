"""The resolver vectors of the policy fact sheet: what go-template-utils made of each document.

Errors are upstream's without the document, which it puts between the first words and the reason.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from muster.policy.dependencies import LocalSource
from muster.policy.names import HUB_DELIMITERS, MANAGED_DELIMITERS
from muster.policy.resolver import AllowedObject, Encryption, Resolution, ResolveError, ResolveOptions, Resolver

ALL: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "gotemplate" / "policy_vectors.json").read_text())
VECTORS = [vector for vector in ALL if vector["mode"] in ("json", "raw")]
ENCRYPTION = Encryption(key=b"k" * 32, initialization_vector=b"i" * 16, encrypt=True)


async def resolve(vector: dict[str, Any], source: LocalSource) -> Resolution:
    options = ResolveOptions(
        context=vector.get("ctx"),
        lookup_namespace=vector.get("lookupns", ""),
        allow_list=tuple(AllowedObject(*entry) for entry in vector.get("allow", ())),
        denylist=frozenset(vector.get("deny", ())),
        encryption=ENCRYPTION if vector.get("enc") else None,
        input_is_yaml=vector["mode"] == "raw",
    )
    return await Resolver(HUB_DELIMITERS if vector.get("hub") else MANAGED_DELIMITERS).resolve(vector["tmpl"], source, options)


@pytest.mark.parametrize("vector", [vector for vector in VECTORS if "error" not in vector], ids=lambda vector: vector["id"])
async def test_a_document_becomes_what_upstream_makes_of_it(vector: dict[str, Any], shop: LocalSource) -> None:
    resolution = await resolve(vector, shop)
    assert resolution.value == json.loads(vector["expect"])
    assert resolution.sensitive == vector["sensitive"]


@pytest.mark.parametrize("vector", [vector for vector in VECTORS if "error" in vector], ids=lambda vector: vector["id"])
async def test_an_error_is_upstreams_without_the_document(vector: dict[str, Any], shop: LocalSource) -> None:
    with pytest.raises(ResolveError) as raised:
        await resolve(vector, shop)
    expected = vector["error"].replace(f" {vector['tmpl']}: ", ": ", 1)
    prefix, _, detail = expected.partition(": ")
    assert raised.value.detail == detail
    assert str(raised.value).startswith(prefix + ": ")
    assert str(raised.value) == expected or len(str(raised.value)) <= 200 < len(expected)
