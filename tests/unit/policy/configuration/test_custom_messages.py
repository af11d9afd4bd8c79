"""A policy's own message is a template of somebody: it costs nobody but the policy, and shows nothing that others may not."""

from __future__ import annotations

import asyncio
import time

from muster.policy.configuration.controller import ConfigurationPolicyOptions
from muster.runtime.client.builtin import SECRETS
from tests.support.policy_site import CLUSTER, PolicySite, config_map, policy, template

ENDLESS = "{{ range until 9000 }}{{ range until 9000 }}{{ $x := add . 1 }}{{ end }}{{ end }}"


async def test_a_message_without_end_fails_alone_and_delays_nobody(site: PolicySite) -> None:
    """While it is rendered, which takes seconds, others go on."""
    async with site.controller():
        await site.create(policy("p", template(config_map("settings")), customMessage={"compliant": ENDLESS}))
        task = asyncio.create_task(site.reported("p", "Compliant", "(failure processing the custom message: failed to execute"))
        turns = []
        while not task.done():
            began = time.perf_counter()
            await asyncio.sleep(0.005)
            turns.append(time.perf_counter() - began)
    assert "exceeded" in task.result()["history"][0]["message"]
    assert max(turns) < sum(turns) / 4


async def test_functions_on_the_denylist_fail_in_messages_too(site: PolicySite) -> None:
    denying = ConfigurationPolicyOptions((CLUSTER,), denylist=frozenset({"getHostByName"}))
    async with site.controller(configuration=denying):
        custom = {"compliant": '{{ getHostByName "localhost" }}'}
        await site.create(policy("p", template(config_map("settings")), customMessage=custom))
        await site.reported("p", "Compliant", "use of denylisted template function: function 'getHostByName' is not allowed")


async def test_a_secret_is_not_among_the_objects_of_a_message(site: PolicySite) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "app"}, "stringData": {"k": "hunter2"}}
    await site.spoke.create(SECRETS, secret, "app")
    wanted = {key: secret[key] for key in ("apiVersion", "kind", "metadata")}
    async with site.controller():
        custom = {"compliant": "of {{ (index .Policy.status.relatedObjects 0).object }}"}
        await site.create(policy("p", template(wanted), customMessage=custom))
        status = await site.reported("p", "Compliant", "of map[")
    assert "aHVudGVyMg" not in str(status)
    assert "data" not in status["history"][0]["message"].replace("metadata", "")
