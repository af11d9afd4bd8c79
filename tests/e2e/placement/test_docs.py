"""The page about placements is right: its commands are run as printed, on a hub with three clusters."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from muster.runtime.client.builtin import NAMESPACES
from tests.e2e.placement.conftest import Corner
from tests.support.choosing import BINDINGS, CLUSTERS, PLACEMENTS, SETS
from tests.support.pages import Page

PAGE = Page("docs/placement.md")


async def test_what_the_page_says_to_type_works(corner: Corner, tmp_path: Path) -> None:
    clusters = {"cluster1": "east", "cluster2": "east", "cluster3": "west"}
    await corner.cluster_set("fleet")
    for name, region in clusters.items():
        await corner.cluster(name, of="fleet", region=region)
    try:
        await PAGE.follow(corner.hub.cluster.kubeconfig, tmp_path)
    finally:
        for name in clusters:
            await corner.admin.delete(CLUSTERS, name)
        await corner.admin.delete_collection(BINDINGS, "shop")
        await corner.admin.delete(SETS, "fleet")
        await corner.admin.delete(NAMESPACES, "shop")


@pytest.mark.parametrize("text", PAGE.objects, ids=lambda text: text.split("\n")[2])
async def test_the_objects_that_the_page_shows_are_taken_by_the_hub_with_all_their_fields(corner: Corner, text: str) -> None:
    body = yaml.safe_load(text)
    body["metadata"]["namespace"] = corner.ns
    await corner.admin.raw("POST", PLACEMENTS.path(corner.ns), {"dryRun": "All", "fieldValidation": "Strict"}, body)


def test_every_block_of_the_page_is_run_printed_or_an_object() -> None:
    PAGE.check_blocks()
