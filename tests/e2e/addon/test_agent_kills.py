"""An agent that is killed again and again, at any moment, leaves no credential behind that nobody needs and asks for none twice.

MUSTER_ADDON_KILLS=50 is the long form, with twenty addons.
"""

from __future__ import annotations

import os
import random
import time
from functools import partial

import pytest

from tests.e2e.addon.conftest import INSTALL_NAMESPACE, Site, config_map
from tests.e2e.addon.test_template_addons import KUBE_CLIENT
from tests.support.administrator import CSRS
from tests.support.sites import beside_kube

pytestmark = beside_kube

KILLS = int(os.environ.get("MUSTER_ADDON_KILLS", "4"))
COUNT = 20 if KILLS >= 50 else 4
LONGEST_LIFE = 3.0


def open_requests(site: Site, addon: str) -> int:
    """Those that nobody has answered yet."""
    labels = f"open-cluster-management.io/addon-name={addon},open-cluster-management.io/cluster-name={site.cluster}"
    found = site.admin.get(CSRS, query={"labelSelector": labels}).expect(200)["items"]
    return sum(not (one.get("status") or {}).get("certificate") for one in found)


def holds(site: Site, addon: str) -> bool:
    found = site.secret(f"{addon}-hub-kubeconfig")
    return {"kubeconfig", "tls.crt", "tls.key", "cluster-name"} <= found.keys()


@pytest.mark.timeout(60 * 20 if KILLS >= 50 else 180)
def test_kills_at_any_moment_leave_no_orphan_and_no_second_request(site: Site) -> None:
    seed = int(os.environ.get("MUSTER_ADDON_SEED", "1"))
    chance = random.Random(seed)
    addons = [site.name("killed") for _ in range(COUNT)]
    for addon in addons:
        site.offer(addon, site.template(addon, config_map(addon), registration=[KUBE_CLIENT]))
    site.agent.kill()
    for addon in addons:
        site.enable(addon)
    staying, leaving = addons[: COUNT // 2], addons[COUNT // 2 :]
    for number in range(KILLS):
        site.agent.start()
        time.sleep(chance.uniform(0.0, LONGEST_LIFE))
        site.agent.kill()
        for addon in addons:
            assert open_requests(site, addon) <= 1, f"{addon} after kill {number} of seed {seed}"
            held = site.secret(f"{addon}-hub-kubeconfig")
            assert not held or holds(site, addon), "a Secret is complete or is not there"
        if number == KILLS // 2:
            for addon in leaving:
                site.disable(addon)
    site.agent.start()
    for addon in staying:
        site.hub.wait(partial(holds, site, addon), f"the credential of {addon}", 60)
    site.hub.wait(lambda: not any(site.find(addon) for addon in leaving), "addons to be gone", 60)
    site.hub.wait(lambda: not any(site.secret(f"{addon}-hub-kubeconfig") for addon in leaving), "their credentials to be gone", 60)
    for addon in staying:
        assert open_requests(site, addon) == 0
        site.disable(addon)
    secrets = f"/api/v1/namespaces/{INSTALL_NAMESPACE}/secrets"
    names = {f"{addon}-hub-kubeconfig" for addon in addons}
    site.hub.wait(
        lambda: not names & {one["metadata"]["name"] for one in site.spoke.admin.get(secrets).expect(200)["items"]},
        "no Secret of theirs",
        60,
    )
