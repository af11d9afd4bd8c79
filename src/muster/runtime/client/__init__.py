"""A client for any Kubernetes API: the verbs, how requests get there, who is asking, and what can go wrong."""

from muster.runtime.client.base import KubeClient, ObjectList, WatchEvent
from muster.runtime.client.credentials import CredentialError, stamp_of
from muster.runtime.client.delegating import DelegatingClient, Send, Target, Write
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
    dump_kubeconfig,
    in_cluster_config,
    load_kubeconfig,
    parse_kubeconfig,
)
from muster.runtime.client.patches import patch_changes, patch_object, patch_status, retry_on_conflict
from muster.runtime.client.rest import JSON, Query, RestClient
from muster.runtime.client.restmapper import NoKindMatch, RESTMapper
from muster.runtime.client.typed import Kind, served

__all__ = [
    "JSON",
    "SERVICE_ACCOUNT",
    "AlreadyExists",
    "AuthInfo",
    "BadRequest",
    "ClientConfig",
    "Conflict",
    "CredentialError",
    "DelegatingClient",
    "Expired",
    "Forbidden",
    "HttpClient",
    "Invalid",
    "Kind",
    "KubeClient",
    "KubeError",
    "KubeconfigError",
    "NoCredential",
    "NoKindMatch",
    "NotFound",
    "ObjectList",
    "Query",
    "RESTMapper",
    "RestClient",
    "Send",
    "ServerFailure",
    "StatusError",
    "Target",
    "TooManyRequests",
    "Unauthorized",
    "Unreachable",
    "Untrusted",
    "WatchEvent",
    "Write",
    "dump_kubeconfig",
    "in_cluster_config",
    "load_kubeconfig",
    "parse_kubeconfig",
    "patch_changes",
    "patch_object",
    "patch_status",
    "retry_on_conflict",
    "served",
    "stamp_of",
    "status_error",
]
