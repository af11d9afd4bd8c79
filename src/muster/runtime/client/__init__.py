"""A client for any Kubernetes API: verbs, transport, credentials, and errors."""

from muster.runtime.client.base import PAGE, FieldValidation, KubeClient, ObjectList, Page, PatchKind, WatchEvent
from muster.runtime.client.credentials import CredentialError, Credentials, ReloadedFile, stamp_of
from muster.runtime.client.delegating_client import DelegatingClient, Send, Write, WriteTarget
from muster.runtime.client.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    KubeError,
    NoCredential,
    NotFound,
    ServerFailure,
    StatusError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    Untrusted,
    status_error,
)
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import (
    SERVICE_ACCOUNT,
    AuthInfo,
    ClientConfig,
    KubeconfigError,
    Material,
    context_names,
    in_cluster_config,
    load_context,
    load_kubeconfig,
    parse_kubeconfig,
)
from muster.runtime.client.kubeconfig_output import context_of, dump_kubeconfig
from muster.runtime.client.patches import patch_changes, patch_object, patch_status, retry_on_conflict
from muster.runtime.client.proxies import proxy_for
from muster.runtime.client.reloading_client import ReloadingClient
from muster.runtime.client.rest import JSON, Query, RestClient
from muster.runtime.client.restmapper import NoKindMatch, RESTMapper
from muster.runtime.client.transport import OutgoingRequest, Transport, Upgraded
from muster.runtime.client.typed import Kind, WritableKind, document_of, gvr_of, namespace_of, served

__all__ = [
    "JSON",
    "PAGE",
    "SERVICE_ACCOUNT",
    "AlreadyExists",
    "AuthInfo",
    "BadRequest",
    "ClientConfig",
    "Conflict",
    "CredentialError",
    "Credentials",
    "DelegatingClient",
    "Expired",
    "FieldValidation",
    "Forbidden",
    "HttpClient",
    "Invalid",
    "Kind",
    "KubeClient",
    "KubeError",
    "KubeconfigError",
    "Material",
    "NoCredential",
    "NoKindMatch",
    "NotFound",
    "ObjectList",
    "OutgoingRequest",
    "Page",
    "PatchKind",
    "Query",
    "RESTMapper",
    "ReloadedFile",
    "ReloadingClient",
    "RestClient",
    "Send",
    "ServerFailure",
    "StatusError",
    "TooManyRequests",
    "Transport",
    "Unauthorized",
    "Unreachable",
    "Untrusted",
    "Upgraded",
    "WatchEvent",
    "WritableKind",
    "Write",
    "WriteTarget",
    "context_names",
    "context_of",
    "document_of",
    "dump_kubeconfig",
    "gvr_of",
    "in_cluster_config",
    "load_context",
    "load_kubeconfig",
    "namespace_of",
    "parse_kubeconfig",
    "patch_changes",
    "patch_object",
    "patch_status",
    "proxy_for",
    "retry_on_conflict",
    "served",
    "stamp_of",
    "status_error",
]

# Former names, for programs that were written with them.
Asking = OutgoingRequest
Target = WriteTarget
Watched = ReloadedFile
