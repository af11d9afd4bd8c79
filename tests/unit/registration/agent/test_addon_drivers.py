"""A change of the driver of an addon's credential leaves no moment in which the credential that is in its Secret has no rights."""

import msgspec
import pytest

from muster.api import Condition
from muster.api.addon.v1alpha1 import ManagedClusterAddOn
from muster.api.addons import CERTIFICATE_ROTATED, CREDENTIAL_CONDITIONS, CSR_DRIVER, TOKEN_DRIVER, TOKEN_REFRESHED, drivers_in_use
from muster.registration.agent.addons.status import Facts, reported

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
        found = reported(found, Facts(driver), NOW)
        assert found.status.kube_client_driver == driver
        assert drivers_in_use(found.status) == ((driver, earlier) if earlier else (driver,))
        found = reported(found, Facts(driver, (said(driver, "False"),)), NOW)
        assert drivers_in_use(found.status) == ((driver, earlier) if earlier else (driver,))
        found = reported(found, Facts(driver, (said(driver, "True"),)), NOW)
        assert drivers_in_use(found.status) == (driver,)
        assert true(found) == {CREDENTIAL_CONDITIONS[driver]}


def test_a_credential_that_cannot_be_renewed_brings_no_other_identity_back() -> None:
    found = reported(addon(), Facts(CSR_DRIVER, (said(CSR_DRIVER, "True"),)), NOW)
    found = reported(found, Facts(CSR_DRIVER, (said(CSR_DRIVER, "False"),)), NOW)
    assert drivers_in_use(found.status) == (CSR_DRIVER,)


def test_certificates_of_custom_signers_keep_their_condition() -> None:
    found = reported(addon(), Facts(TOKEN_DRIVER, (said(TOKEN_DRIVER, "True"), said(CSR_DRIVER, "True"))), NOW)
    assert true(found) == {CERTIFICATE_ROTATED, TOKEN_REFRESHED}


def test_an_addon_without_a_client_of_the_hub_has_no_driver() -> None:
    bare = msgspec.structs.replace(addon(), status=msgspec.structs.replace(addon().status, registrations=()))
    found = reported(bare, Facts(CSR_DRIVER, (said(CSR_DRIVER, "True"),)), NOW)
    assert found.status.kube_client_driver == ""
