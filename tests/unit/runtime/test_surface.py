"""What runtime's packages offer, pinned: whoever adds to it means it, and nobody outside reaches past it."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[3] / "src" / "muster"
ROOM = "muster.runtime"
OPEN_MODULES = {f"{ROOM}.client.builtin"}
"""A list of names and nothing else: they are meant one by one."""
SURFACE = {
    "auth": """
        AccessReviewer Authenticator Authorizer CallerAuthentication ImpersonationForbidden MAX_TOKEN TTLCache RbacAuthorizer
        SubjectAccess TokenReviewer Unauthenticated impersonated missing_rights rights
    """,
    "cache": """
        Cache DynamicCache DynamicRESTMapper FollowedSelections Informer Informers Metadata MutationCache ObservedObject
        Presence Selection Snapshot UNKNOWN label_index older
        FollowedDefinition followed_definitions
    """,
    "client": """
        AlreadyExists OutgoingRequest AuthInfo BadRequest ClientConfig Conflict CredentialError Credentials DelegatingClient Expired
        FieldValidation Forbidden HttpClient Invalid JSON Kind KubeClient KubeError KubeconfigError Material
        NoCredential NoKindMatch NotFound ObjectList PAGE Page PatchKind Query RESTMapper ReloadingClient RestClient
        SERVICE_ACCOUNT Send ServerFailure StatusError WriteTarget TooManyRequests Transport Unauthorized Unreachable
        Untrusted Upgraded WatchEvent ReloadedFile WritableKind Write context_names context_of document_of dump_kubeconfig gvr_of
        in_cluster_config load_context load_kubeconfig namespace_of parse_kubeconfig patch_changes patch_object
        patch_status proxy_for retry_on_conflict served stamp_of status_error
    """,
    "controller": """
        Controller ControllerContext EventRecorder LeaderElection LeadershipLost Manager Runnable RunnableFunc
        Stop WriteOne add_finalizer failures_text has_finalizer leader_identity make_controllers object_reference removal_patch
        remove_finalizer set_condition with_condition with_finalizer without_finalizer write_each
    """,
    "process": """
        MetricsServer SecureServing serve
    """,
    "webhook": """
        AdmissionRequest AdmissionResponse CONFIG_MAP Denied Endpoint Hook ServingCertificate ServingNames
        ServingOptions ServingPair WebhookServer WebhookServing allow bad_request configure follow_files inject_ca_bundle
        make_pair mutate read trust_webhooks
    """,
}


@pytest.mark.parametrize("package", SURFACE)
def test_a_package_offers_what_is_written_here(package: str) -> None:
    offered = importlib.import_module(f"{ROOM}.{package}").__all__
    assert sorted(offered) == sorted(SURFACE[package].split())


def test_every_package_is_written_here() -> None:
    assert {path.parent.name for path in (SOURCES / "runtime").glob("*/__init__.py")} == set(SURFACE)


def test_rooms_above_import_packages_and_not_the_modules_inside() -> None:
    reaching = [
        f"{path.relative_to(SOURCES)}: {module}"
        for path in SOURCES.rglob("*.py")
        if SOURCES / "runtime" not in path.parents
        for module in imported(path)
        if module.startswith(f"{ROOM}.") and module.count(".") > 2 and module not in OPEN_MODULES
    ]
    assert not reaching


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
