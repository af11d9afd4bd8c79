"""The checks of `doctor` for a cluster whose agents use gRPC, from both sides.

On the hub (`grpc_server`): does the server run, is its address known, and does it answer there? On the managed cluster
(`agent_connection`): each step of the connection that the agents' Secrets describe is tried from here, so that the first failing
one is named: the configuration, the port, the certificate and the clocks, the token, and whether the hub has accepted the cluster.
The administrator's network may differ from the agents': an unreachable server is no problem of a cluster that is available.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from muster.administration.findings import NOTE, OK, PROBLEM, Diagnosis, Finding, Findings
from muster.administration.hub.authority import AUTHORITY_MAP
from muster.administration.hub.grpc_probe import GrpcServerState, probe_grpc_server
from muster.administration.hub.grpc_server import SERVICE, published_server
from muster.administration.hub.initialize import grpc_driver_of
from muster.administration.members.join_checks import token_expiry
from muster.administration.members.klusterlets import bootstrap_secret, hub_secret
from muster.administration.readiness import deployment_problem
from muster.api.operator.v1 import LOAD_BALANCER, ROUTE, ClusterManager, ClusterManagerSpec, Klusterlet
from muster.operator.cluster_manager.exposure import PORT
from muster.operator.klusterlet.connection import open_secret
from muster.operator.klusterlet.plan import agent_namespace_of
from muster.operator.names import CLUSTER_MANAGER
from muster.registration.drivers import find, profile_of
from muster.registration.drivers.endpoints import EndpointError
from muster.registration.drivers.flags import GRPC
from muster.registration.names import BOOTSTRAP_SECRET, DRIVER_ANNOTATION, HUB_NAMESPACE, HUB_SECRET
from muster.runtime.client import KubeClient, KubeError, NotFound, Unauthorized, Unreachable
from muster.runtime.client.builtin import DEPLOYMENTS
from muster.transport.client.config import ConfigError, TransportConfig, parse_config

SERVER: Final = "gRPC server"
SERVER_CONNECTION: Final = "way to the gRPC server"
WITHIN: Final = 20.0
"""Seconds for all checks with the agents' credential."""
JOIN_AGAIN: Final = "run get token on the hub, and join again with it"


async def grpc_server(diagnosis: Diagnosis) -> Findings:
    """If agents use gRPC: does the server run, and does its certificate match the agents' configuration?"""
    try:
        manager = await diagnosis.hub.get(ClusterManager, CLUSTER_MANAGER)
    except NotFound:
        return
    profile = profile_of(name) if (name := grpc_driver_of(manager)) else None
    if profile is None:
        if diagnosis.cluster is not None and diagnosis.cluster.metadata.annotations.get(DRIVER_ANNOTATION) == GRPC:
            text = "the cluster registers over gRPC, and the ClusterManager has no such driver"
            yield Finding(PROBLEM, SERVER, text, "run init --registration-drivers csr,grpc --grpc-server HOST:PORT")
        return
    try:
        deployment = await diagnosis.hub.get(DEPLOYMENTS, SERVICE, HUB_NAMESPACE)
    except NotFound as error:
        yield Finding(PROBLEM, SERVER, f"it is not there yet: {error}", "the operator makes it: does it run? see get hub-info")
        return
    if problem := deployment_problem(deployment):
        remedy = f"see kubectl -n {HUB_NAMESPACE} describe deployment {SERVICE}"
        yield Finding(PROBLEM, SERVER, f"it does not run: {problem}", remedy)
        return
    server = await published_server(diagnosis.hub, manager)
    if server.pending:
        yield Finding(
            NOTE if diagnosis.available else PROBLEM, SERVER, "it has no address that agents can be given", server.pending
        )
        return
    if not server.authority:
        text = f"its authority is not published in ConfigMap {HUB_NAMESPACE}/{AUTHORITY_MAP}"
        yield Finding(PROBLEM, SERVER, text, "the operator does that: does it run? see get hub-info")
        return
    address = profile.join_flags(server.spec, server.authority)[1]
    state = await probe_grpc_server(address, server.authority, diagnosis.clock.now())
    yield _finding(diagnosis, SERVER, address, state, _endpoint_type(server.spec))


def _endpoint_type(spec: ClusterManagerSpec) -> str:
    """The kind of endpoint that an administrator has to put in front of the server."""
    kinds = (
        {grpc_exposure.type for grpc_exposure in spec.server_configuration.grpc_exposures} if spec.server_configuration else set()
    )
    to = f"Service {HUB_NAMESPACE}/{SERVICE}"
    if ROUTE in kinds:
        return f"does a Route of this host pass TLS through to port {PORT} of {to}? The operator makes none"
    if LOAD_BALANCER in kinds:
        return f"does the load balancer of {to} pass TLS through, and is it reachable?"
    return f"is the address right, does it lead to port {PORT} of {to}, and is it reachable?"


def _finding(diagnosis: Diagnosis, subject: str, address: str, state: GrpcServerState, endpoint_type: str) -> Finding:
    if not state.problem:
        text = f"it answers at {address}, and its certificate is good until {state.until:%Y-%m-%dT%H:%M:%SZ}"
        return Finding(OK, subject, text)
    verdict = NOTE if diagnosis.available and not state.reached else PROBLEM
    return Finding(verdict, subject, state.problem, state.remedy or endpoint_type)


async def agent_connection(diagnosis: Diagnosis, managed: KubeClient, klusterlet: Klusterlet) -> Findings:
    """Connect from here as the agents do, with the content of their Secrets."""
    driver = find(GRPC)
    own = await hub_secret(managed, klusterlet)
    registered = bool(own.get(driver.endpoints.key))
    contents = own if registered else await bootstrap_secret(managed, klusterlet)
    if not contents:
        return
    source = f"Secret {agent_namespace_of(klusterlet)}/{HUB_SECRET if registered else BOOTSTRAP_SECRET}"
    try:
        config = parse_config(contents.get(driver.endpoints.key, b""), source)
    except ConfigError as error:
        yield Finding(PROBLEM, SERVER_CONNECTION, str(error), "run join again")
        return
    state = await _probe(diagnosis, config, contents)
    yield _finding(diagnosis, SERVER_CONNECTION, config.url, state, "is the port open from there, and --grpc-server of join right?")
    if state.until is None:
        return
    if not registered and (expired := token_expiry(config.token)) is not None and expired <= diagnosis.clock.now():
        yield Finding(PROBLEM, SERVER_CONNECTION, f"{source}: its token has expired at {expired:%Y-%m-%dT%H:%M:%SZ}", JOIN_AGAIN)
        return
    missing_permissions = driver.missing_to_serve if registered else driver.missing_to_register
    try:
        async with asyncio.timeout(WITHIN), open_secret(driver.endpoints, contents, source, diagnosis.name) as hub:
            missing = await missing_permissions(hub, diagnosis.name)
    except Unauthorized:
        why = "the agent's certificate" if registered else "its bootstrap token"
        yield Finding(PROBLEM, SERVER_CONNECTION, f"{source}: the hub does not accept {why}", JOIN_AGAIN)
    except TimeoutError:
        yield Finding(
            PROBLEM, SERVER_CONNECTION, f"{source}: no answer from the hub within {WITHIN:g} s", "see the log of the gRPC server"
        )
    except Unreachable as error:
        # It has just answered a request without credentials.
        text = f"{source}: the server does not answer who comes with this: {error.reason}"
        yield Finding(
            PROBLEM,
            SERVER_CONNECTION,
            text,
            f"is it of another hub, or of an authority that the hub no longer has? If so, {JOIN_AGAIN}",
        )
    except (KubeError, EndpointError, OSError) as error:
        yield Finding(PROBLEM, SERVER_CONNECTION, f"{source}: {error}", "correct what the message names")
    else:
        yield _admission(diagnosis, source, registered, missing)


def _admission(diagnosis: Diagnosis, source: str, registered: bool, missing: tuple[str, ...]) -> Finding:
    if not missing:
        return Finding(OK, SERVER_CONNECTION, f"the hub accepts {source}")
    text = f"the hub refuses {source}: it may not {', '.join(missing)}"
    if registered:
        return Finding(
            PROBLEM, SERVER_CONNECTION, text, f"the cluster is not accepted (any more): run accept --clusters {diagnosis.name}"
        )
    return Finding(PROBLEM, SERVER_CONNECTION, text, f"use a token that get token --cluster-name {diagnosis.name} gives")


async def _probe(diagnosis: Diagnosis, config: TransportConfig, contents: Mapping[str, bytes]) -> GrpcServerState:
    ca = contents.get(config.ca.name, b"") if isinstance(config.ca, Path) else config.ca or b""
    return await probe_grpc_server(config.url, ca, diagnosis.clock.now(), config.proxy)
