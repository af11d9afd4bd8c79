"""Policies that mean harm to the controller, or to the machine it runs on; their neighbours do not notice."""

from __future__ import annotations

import os
import time

import pytest

from tests.support.policies import ManagedCluster, PolicyController, PolicyHub

BOMB = "a: &a [x,x,x,x,x,x,x,x]" + "".join(
    f"\\n{key}: &{key} [{','.join([f'*{before}'] * 8)}]" for before, key in zip("abcdefgh", "bcdefghi", strict=True)
)
RUNAWAY = {
    "a loop": "{{hub range until 1000000000 hub}}x{{hub end hub}}",
    "loops in loops": "{{hub range until 100000 hub}}{{hub range until 100000 hub}}x{{hub end hub}}{{hub end hub}}",
    "endless recursion": '{{hub define "t" hub}}{{hub template "t" hub}}{{hub end hub}}{{hub template "t" hub}}',
    "ten million letters": '{{hub repeat 10000000 "x" hub}}',
    "text that doubles": (
        '{{hub $x := "xxxxxxxx" hub}}{{hub range until 60 hub}}{{hub $x = print $x $x hub}}{{hub end hub}}{{hub $x hub}}'
    ),
    "a huge list": "{{hub untilStep 0 1000000000 1 | toJson hub}}",
    "a key that takes long": '{{hub genPrivateKey "rsa" hub}}{{hub derivePassword 1 "long" "p" "u" "s" hub}}{{hub fail "end" hub}}',
    "a pattern of patterns": '{{hub regexMatch "(x+x+)+y" (repeat 100000 "x") | fail hub}}',
    "a YAML bomb": f'{{{{hub fromYAML "{BOMB}" | toJson hub}}}}',
    "the environment": '{{hub env "PATH" hub}}',
    "more of the environment": '{{hub expandenv "$HOME" hub}}',
}


@pytest.mark.parametrize("text", RUNAWAY.values(), ids=RUNAWAY)
def test_a_runaway_template_fails_and_delays_no_other_policy(c1: ManagedCluster, shop: str, name: str, text: str) -> None:
    policy = c1.bring_value(name, text)
    neighbour = c1.bring_value(f"{name}-neighbour", f'{{{{hub fromConfigMap "{shop}" "settings" "color" hub}}}}')
    began = time.monotonic()
    c1.wait_status(neighbour, "Compliant", timeout=15)
    assert time.monotonic() - began < 10
    c1.wait_status(policy, "NonCompliant", "failed to ", timeout=40)
    assert c1.value(name) is None
    assert len(c1.message(policy)) < 4096
    assert os.environ["PATH"] not in c1.message(policy)
    for one in (policy, neighbour):
        c1.drop(one)


def test_functions_that_were_denied_are_denied_to_hub_templates(hub: PolicyHub, c2: ManagedCluster, name: str) -> None:
    """`getHostByName` tells whoever writes policies about the network of the cluster."""
    with_denylist = PolicyController(
        "c2", c2.cluster, c2.directory, c2.kubeconfig, "--template-function-denylist=getHostByName,genPrivateKey"
    )
    c2.controller.stop()
    try:
        with_denylist.start()
        text = '{{hub getHostByName "localhost" hub}}'
        c2.wait_status(c2.bring_value(name, text), "NonCompliant", "function 'getHostByName' is not allowed")
        c2.wait_status(c2.bring_operator(name, text), "NonCompliant", "function 'getHostByName' is not allowed")
    finally:
        with_denylist.stop()
        c2.controller.start()


def test_text_from_the_hub_does_not_become_another_template(hub: PolicyHub, c1: ManagedCluster, shop: str, name: str) -> None:
    """Who may write a ConfigMap does not get what the hub's user may read."""
    hub.settings(shop, "injected", color='{{hub fromSecret "kube-system" "admin" "token" hub}}')
    policy = c1.bring_value(name, f'{{{{hub fromConfigMap "{shop}" "injected" "color" hub}}}}')
    c1.wait_status(policy, "NonCompliant", "contains hub templates")
    assert c1.value(name) is None
    assert c1.saved_secret(policy) is None


def test_text_from_the_hub_does_not_change_what_the_policy_is(hub: PolicyHub, c1: ManagedCluster, shop: str, name: str) -> None:
    hub.settings(shop, "injected", color='x"\n  pruneObjectBehavior: DeleteAll\n  remediationAction: "enforce')
    policy = c1.bring_value(name, f'{{{{hub fromConfigMap "{shop}" "injected" "color" hub}}}}', action="inform")
    c1.wait_status(policy, "NonCompliant")
    assert c1.value(name) is None
    assert not c1.settled(policy)["metadata"].get("finalizers")
