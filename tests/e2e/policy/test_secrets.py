"""Secrets of the hub: copied byte for byte, and to be seen nowhere else, whatever policies and people do."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from muster.policy.configuration.diffs import CENSORED_TEXT
from muster.policy.names import LAST_RESOLVED_KEY, LAST_RESOLVED_SUFFIX
from tests.support.policies import GROUP, ManagedCluster, PolicyHub, encoded, path, secret, template

PASSWORD = "hunter2-Zq9-no-one-may-see-this"
MULTILINE = "-----BEGIN KEY-----\nline one\n  line 'two'\n\ttabbed \"quoted\" {{ braces }}\n-----END KEY-----\n"


@pytest.fixture
def vault(hub: PolicyHub, c1: ManagedCluster) -> str:
    """A namespace of the hub whose Secrets the hub templates of `c1` may read."""
    name = hub.namespace()
    hub.grant("c1", name, ["secrets"])
    data = {"password": encoded(PASSWORD), "key": encoded(MULTILINE), "a.very-long_name": encoded(bytes(range(256)))}
    hub.put(secret("creds", name, data))
    return name


@pytest.fixture(autouse=True)
def nothing_leaks(c1: ManagedCluster) -> Iterator[None]:
    """Whatever a test does: the password is in no status, event, log line or metric, neither as it is nor encoded."""
    yield
    seen = {"log": c1.log(), "metrics": c1.controller.metrics}
    for kind in ("ConfigurationPolicy", "OperatorPolicy"):
        place = path(kind, "c1")
        seen[kind] = "".join(str(one.get("status")) for one in c1.admin.get(place).expect(200)["items"])
    for place in ("/api/v1/events", "/apis/events.k8s.io/v1/events"):
        seen[place] = c1.admin.get(place).text
    # Also where the text was cut, or its encoding begins elsewhere.
    told = [PASSWORD, PASSWORD[8:20], encoded(PASSWORD)[:24], encoded("x" + PASSWORD)[4:28], encoded("xy" + PASSWORD)[4:28]]
    told.append(PASSWORD[8:20].lower())
    assert [(where, part) for where, text in seen.items() for part in told if part in text] == []


def test_a_secret_is_copied_byte_for_byte_and_follows_the_hub(hub: PolicyHub, c1: ManagedCluster, vault: str, name: str) -> None:
    """A18 (story 1)."""
    whole = secret(name, "default", f'{{{{hub copySecretData "{vault}" "creds" hub}}}}')
    one = secret(f"{name}-one", "default", {"p": f'{{{{hub fromSecret "{vault}" "creds" "password" hub}}}}'})
    policy = c1.bring(name, template(whole, "mustonlyhave"), template(one))
    c1.wait_status(policy, "Compliant")
    source = hub.admin.get(path("Secret", vault, "creds")).expect(200)
    assert c1.admin.get(path("Secret", "default", name)).expect(200)["data"] == source["data"]
    assert c1.admin.get(path("Secret", "default", f"{name}-one")).expect(200)["data"] == {"p": encoded(PASSWORD)}
    kept = c1.saved_secret(policy)
    assert kept is not None
    assert kept["type"] == "Opaque"
    hub.put(secret("creds", vault, {"password": encoded(f"{PASSWORD}-next")}))
    c1.wait(
        lambda: c1.admin.get(path("Secret", "default", name)).json["data"] == {"password": encoded(f"{PASSWORD}-next")},
        "the next password",
    )


def test_a_secret_in_another_kind_of_object_is_censored_in_diffs(hub: PolicyHub, c1: ManagedCluster, vault: str, name: str) -> None:
    """Where upstream shows the values of the hub's Secrets in the status."""
    wanted = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {"password": f'{{{{hub fromSecret "{vault}" "creds" "password" | base64dec hub}}}}'},
        },
    }
    place = f"/api/v1/namespaces/default/serviceaccounts/{name}"
    c1.admin.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}}).expect(201)
    policy = c1.bring(name, template(wanted), action="inform")
    c1.wait_status(policy, "NonCompliant", "found but not as specified")
    related = c1.wait_status(policy, "NonCompliant")["relatedObjects"]
    assert related[0]["properties"]["diff"] == CENSORED_TEXT
    c1.bring(name, template(wanted))
    c1.wait_status(policy, "Compliant")
    assert c1.admin.get(place).expect(200)["metadata"]["annotations"]["password"] == PASSWORD


SPILLING = {
    "as a number": "{{hub fromSecret %s | base64dec | atoi | fail hub}}",
    "as a failure": "{{hub fail (fromSecret %s | base64dec) hub}}",
    "as a field": '{{hub (fromJson (printf "{\\"a\\":%%q}" (fromSecret %s | base64dec))).a.b hub}}',
    "as a name to look up": '{{hub fromConfigMap "default" (fromSecret %s | base64dec | lower) "x" hub}}',
    "as a kind": '{{hub lookup "v1" (fromSecret %s | base64dec) "default" "x" hub}}',
    "as a selector": '{{hub lookup "v1" "ConfigMap" "default" "" (fromSecret %s | base64dec) hub}}',
    "as a date": '{{hub mustToDate "2006-01-02" (fromSecret %s | base64dec) hub}}',
    "as a pattern": '{{hub mustRegexMatch (printf "(%%s" (fromSecret %s | base64dec)) "x" hub}}',
    "as JSON": "{{hub mustFromJson (fromSecret %s | base64dec) hub}}",
    "as a template": "{{ {{hub fromSecret %s | base64dec hub}} }}",
    "as the failure of a managed template": '{{ fail "{{hub fromSecret %s | base64dec hub}}" }}',
    "as a name in a managed template": '{{ fromConfigMap "default" "{{hub fromSecret %s | base64dec | lower hub}}" "x" }}',
    "as a host": "{{hub index (list 1) (fromSecret %s | base64dec) hub}}",
}


@pytest.mark.parametrize("text", SPILLING.values(), ids=SPILLING)
def test_a_template_that_fails_with_a_secret_does_not_tell_it(c1: ManagedCluster, vault: str, name: str, text: str) -> None:
    """Attacks: a secret in the messages, events, status, history and logs of failures."""
    policy = c1.bring_value(name, text % f'"{vault}" "creds" "password"')
    c1.wait_status(policy, "NonCompliant")
    assert c1.value(name) is None


def test_an_operator_policy_does_not_tell_a_secret(c1: ManagedCluster, vault: str, name: str) -> None:
    """In the name of the namespace, which messages show."""
    read = f'fromSecret "{vault}" "creds" "password" | base64dec'
    policy = c1.bring_operator(name, f"{{{{hub {read} hub}}}}")
    c1.wait_status(policy, "NonCompliant")


class TestForgedState:
    """Attacks: somebody who may write Secrets beside the policies puts another last resolved state there while the hub is away."""

    @pytest.fixture
    def policy(self, c1: ManagedCluster, shop: str, name: str) -> Iterator[dict[str, object]]:
        made = c1.bring_value(name, f'{{{{hub fromConfigMap "{shop}" "settings" "color" hub}}}}')
        c1.wait_status(made, "Compliant")
        c1.link.cut()
        c1.controller.stop(kill=True)
        yield made
        c1.link.mend()
        if not c1.controller.process.running:
            c1.controller.start()
        c1.wait_status(made, "Compliant")

    @pytest.mark.parametrize("change", [{"uid": "00000000-0000-4000-8000-000000000000"}, {"generation": 2}, {"name": "other"}])
    def test_of_another_uid_generation_or_name(self, c1: ManagedCluster, policy: Any, change: dict[str, object]) -> None:
        saved = c1.saved(policy)
        assert saved is not None
        saved["metadata"] |= change
        self.plant(c1, policy, saved)
        c1.controller.start()
        c1.wait_status(policy, "NonCompliant", "failed to resolve the template")
        assert c1.value(policy["metadata"]["name"]) == "red"

    def test_of_another_owner(self, c1: ManagedCluster, policy: Any) -> None:
        saved = c1.saved(policy)
        assert saved is not None
        owners = [{"apiVersion": f"{GROUP}/v1", "kind": "ConfigurationPolicy", "name": "other", "uid": "x"}]
        self.plant(c1, policy, saved, owners)
        c1.controller.start()
        c1.wait_status(policy, "NonCompliant", "failed to resolve the template")

    def plant(self, c1: ManagedCluster, policy: Any, saved: Any, owners: list[dict[str, str]] | None = None) -> None:
        saved["spec"]["object-templates"][0]["objectDefinition"]["data"]["value"] = "forged"
        place = path("Secret", "c1", policy["metadata"]["uid"] + LAST_RESOLVED_SUFFIX)
        patch: dict[str, Any] = {"data": {LAST_RESOLVED_KEY: base64.b64encode(orjson.dumps(saved)).decode()}}
        if owners is not None:
            patch["metadata"] = {"ownerReferences": owners}
        c1.admin.patch(place, patch).expect(200)
