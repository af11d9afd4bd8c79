"""The subresource `attach`: which agent may open a tunnel, and the upgrade to WebSocket.

Whoever the hub's RBAC allows to `get clustergateways/attach` of a cluster may open its tunnel. RBAC cannot express "only its own
cluster", so the addon's agents have this permission for all names as a group, and this module compares the agent's identity with
the name of the cluster. A tunnel gives its agent no access: TLS runs through it between the gateway and an API server that is
verified by the cluster's authorities, so a malicious agent could only block requests.
"""

from __future__ import annotations

import re
from typing import Final

from muster.api.addons import addon_group, cluster_addon_group, token_account
from muster.apiserver.errors import ApiError
from muster.gateway import refusals
from muster.gateway.names import ATTACH, COMPONENT, RESOURCE
from muster.gateway.target import Targets
from muster.gateway.tunnel import wire
from muster.gateway.tunnel.tunnels import Tunnels
from muster.http import Answer, RawConnection, Request, Response, Takeover
from muster.http.message import encode_head
from muster.http.websocket import VERSION, accept_value, is_key
from muster.machinery.authentication import UserInfo

ALREADY_ATTACHED: Final = "AlreadyAttached"
NOT_OWN_CLUSTER: Final = "NotOwnCluster"
_BASE_PATH: Final = re.compile(r"(?:/[A-Za-z0-9._~:@!$&'()*+,;=-]+)*", re.ASCII).fullmatch
_MAX_BASE_PATH: Final = 1024
_ACCOUNT_PREFIX: Final = "system:serviceaccount:"


class AttachHandler:
    """The handler of the subresource."""

    def __init__(self, tunnels: Tunnels, targets: Targets) -> None:
        self._tunnels = tunnels
        self._targets = targets

    async def __call__(self, request: Request, who: UserInfo, cluster: str) -> Answer:
        """Raises ApiError. The hub's RBAC has already allowed the caller to get the subresource."""
        if problem := foreign_agent_problem(who, cluster):
            raise refusals.refusal(403, "Forbidden", cluster, NOT_OWN_CLUSTER, problem)
        if self._targets.find(cluster) is None:
            raise refusals.unknown_cluster(cluster)
        key = _key(request, cluster)
        base_path = _base_path(request, cluster)
        replica = self._tunnels.replica
        if replica in (request.headers.get(wire.ATTACHED_FIELD.lower()) or "").replace(" ", "").split(","):
            text = "this agent already has a tunnel to this replica of the gateway"
            answer = refusals.answer(refusals.refusal(409, "Conflict", cluster, ALREADY_ATTACHED, text))
            assert isinstance(answer, Response), "a refusal is not streamed"
            answer.headers = [*answer.headers, (wire.REPLICA_FIELD, replica)]
            return answer
        fields = [
            ("Sec-WebSocket-Accept", accept_value(key)),
            ("Sec-WebSocket-Protocol", wire.PROTOCOL),
            (wire.REPLICA_FIELD, replica),
        ]
        head = encode_head(101, fields, None, "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n")

        async def run(opened: RawConnection) -> None:
            opened.write(head)
            await self._tunnels.serve(cluster, base_path, opened)

        return Takeover(run)


def foreign_agent_problem(who: UserInfo, cluster: str) -> str:
    """Why an addon's agent may not open the tunnel of a cluster that is not its own. Empty for its own, and for other users."""
    own = f"{_ACCOUNT_PREFIX}{cluster}:{token_account(COMPONENT)}"
    is_agent = addon_group(COMPONENT) in who.groups
    is_account = who.name.startswith(_ACCOUNT_PREFIX) and who.name.endswith(f":{token_account(COMPONENT)}")
    if (is_agent and cluster_addon_group(cluster, COMPONENT) not in who.groups) or (is_account and who.name != own):
        return f"{who.name} is the agent of another cluster; an agent opens the tunnel of its own, see --cluster-name"
    return ""


def _key(request: Request, cluster: str) -> str:
    fields = request.headers
    key = (fields.get("sec-websocket-key") or "").strip()
    offered = [one.strip() for one in (fields.get("sec-websocket-protocol") or "").split(",")]
    if not request.upgrade or (fields.get("upgrade") or "").strip().lower() != "websocket":
        problem = f"{RESOURCE}/{ATTACH} must be opened as a WebSocket, by `muster gateway-agent`"
    elif fields.get("sec-websocket-version") != VERSION or not is_key(key):
        problem = f"the WebSocket handshake is not version {VERSION}, or has no key"
    elif wire.PROTOCOL not in offered:
        problem = f"the WebSocket protocol is not {wire.PROTOCOL}; use compatible versions of agent and gateway"
    else:
        return key
    raise refusals.bad_request(cluster, problem)


def _base_path(request: Request, cluster: str) -> str:
    path = request.headers.get(wire.BASE_PATH_FIELD.lower()) or ""
    fits = len(path) <= _MAX_BASE_PATH and _BASE_PATH(path) and not {".", "..", RESOURCE} & set(path.split("/"))
    if not fits:
        raise _bad_base_path(cluster)
    return path


def _bad_base_path(cluster: str) -> ApiError:
    text = f"header {wire.BASE_PATH_FIELD}: expected a path without escapes, such as /clusters/one, that is not one of a gateway"
    return refusals.bad_request(cluster, text)
