"""A change of the driver of an addon's credential leaves no moment in which the credential that is in its Secret has no rights."""

import msgspec
import pytest

from muster.api import Condition
from muster.api.addon.v1alpha1 import ManagedClusterAddOn
from muster.api.addons import CERTIFICATE_ROTATED, CREDENTIAL_CONDITIONS, CSR_DRIVER, TOKEN_DRIVER, TOKEN_REFRESHED, drivers_in_use
from muster.registration.agent.addons.status import AddonFacts, reported

NOW = "2026-11-18T00:00:00Z"
KUBE_CLIENT = {"signerName": "kubernetes.io/kube-apiserver-client", "subject": {"user": "somebody"}}


def addon(**status: object) -> ManagedClusterAddOn:
    metadata = {"name": "hello", "namespace": "cluster1"}
    return ManagedClusterAddOn.decode({"metadata": metadata, "spec": {}, "status": {"registrations": [KUBE_CLIENT], **status}})


def said(driver: str, status: str) -> Condition:
    return Condition(type=CREDENTIAL_CONDITIONS[driver], status=status, reason="Said", message="")


def true(found: ManagedClusterAddOn) -> set[str]:
    return {one.type for one in found.status.conditions if one.status == "True"}


@pytest.mark.parametrize("drivers", [(CSR_DRIVER, TOKEN_DRIVER), (TOKEN_DRIVER, CSR_DRIVER)])
def test_both_identities_count_until_the_new_credential_is_there(drivers: tuple[str, str]) -> None:
    found = addon()
    for earlier, driver in ((None, drivers[0]), drivers, drivers[::-1], drivers):
        found = reported(found, AddonFacts(driver), NOW)
        assert found.status.kube_client_driver == driver
        assert drivers_in_use(found.status) == ((driver, earlier) if earlier else (driver,))
        found = reported(found, AddonFacts(driver, (said(driver, "False"),)), NOW)
        assert drivers_in_use(found.status) == ((driver, earlier) if earlier else (driver,))
        found = reported(found, AddonFacts(driver, (said(driver, "True"),)), NOW)
        assert drivers_in_use(found.status) == (driver,)
        assert true(found) == {CREDENTIAL_CONDITIONS[driver]}


def test_a_credential_that_cannot_be_renewed_brings_no_other_identity_back() -> None:
    found = reported(addon(), AddonFacts(CSR_DRIVER, (said(CSR_DRIVER, "True"),)), NOW)
    found = reported(found, AddonFacts(CSR_DRIVER, (said(CSR_DRIVER, "False"),)), NOW)
    assert drivers_in_use(found.status) == (CSR_DRIVER,)


@pytest.mark.parametrize("drivers", [(CSR_DRIVER, TOKEN_DRIVER), (TOKEN_DRIVER, CSR_DRIVER)])
def test_a_credential_that_could_not_be_renewed_keeps_its_rights_in_a_change_too(drivers: tuple[str, str]) -> None:
    """It may be good for a while yet: what failed is the next one."""
    before, driver = drivers
    found = reported(addon(), AddonFacts(before, (said(before, "False"),)), NOW)
    found = reported(found, AddonFacts(driver), NOW)
    assert drivers_in_use(found.status) == (driver, before)
    found = reported(found, AddonFacts(driver, (said(driver, "True"),)), NOW)
    assert drivers_in_use(found.status) == (driver,)


@pytest.mark.parametrize("driver", ["", "csr", "token", "aws", "TOKEN", "x" * 253, "system:masters"])
@pytest.mark.parametrize("token", [None, "True", "False", "Unknown", "system:admin"])
@pytest.mark.parametrize("certificate", [None, "True", "False", "Unknown", "system:admin"])
def test_whatever_an_agent_writes_it_is_one_of_its_own_two(driver: str, token: str | None, certificate: str | None) -> None:
    verdicts = {TOKEN_REFRESHED: token, CERTIFICATE_ROTATED: certificate}
    conditions = [{"type": kind, "status": status} for kind, status in verdicts.items() if status is not None]
    found = drivers_in_use(addon(kubeClientDriver=driver, conditions=conditions).status)
    assert found[0] == (TOKEN_DRIVER if driver == TOKEN_DRIVER else CSR_DRIVER)
    assert set(found) <= {TOKEN_DRIVER, CSR_DRIVER}
    assert len(found) == 1 or verdicts[CREDENTIAL_CONDITIONS[found[0]]] != "True"


def test_certificates_of_custom_signers_keep_their_condition() -> None:
    found = reported(addon(), AddonFacts(TOKEN_DRIVER, (said(TOKEN_DRIVER, "True"), said(CSR_DRIVER, "True"))), NOW)
    assert true(found) == {CERTIFICATE_ROTATED, TOKEN_REFRESHED}


def test_an_addon_without_a_client_of_the_hub_has_no_driver() -> None:
    bare = msgspec.structs.replace(addon(), status=msgspec.structs.replace(addon().status, registrations=()))
    found = reported(bare, AddonFacts(CSR_DRIVER, (said(CSR_DRIVER, "True"),)), NOW)
    assert found.status.kube_client_driver == ""
