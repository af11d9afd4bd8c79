"""Admission and conversion webhooks: the server, its certificate, its clients, and the webhook configurations."""

from muster.runtime.webhook.certificates import ServingCertificate, ServingPair, follow_files, inject_ca_bundle, make_pair
from muster.runtime.webhook.clients import CONFIG_MAP
from muster.runtime.webhook.configuration import Endpoint, Hook, configure, trust_webhooks
from muster.runtime.webhook.server import (
    AdmissionRequest,
    AdmissionResponse,
    Denied,
    WebhookServer,
    allow,
    bad_request,
    mutate,
    read,
)
from muster.runtime.webhook.serving import ServingNames, ServingOptions, WebhookServing

__all__ = [
    "CONFIG_MAP",
    "AdmissionRequest",
    "AdmissionResponse",
    "Denied",
    "Endpoint",
    "Hook",
    "ServingCertificate",
    "ServingNames",
    "ServingOptions",
    "ServingPair",
    "WebhookServer",
    "WebhookServing",
    "allow",
    "bad_request",
    "configure",
    "follow_files",
    "inject_ca_bundle",
    "make_pair",
    "mutate",
    "read",
    "trust_webhooks",
]
