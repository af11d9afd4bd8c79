"""The requests of agents, and their implementations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster.transport.contract.rows import (
    ADDONS_ALPHA,
    ADDONS_BETA,
    CLUSTERS,
    EVENT_ROW,
    LEASE_ROW,
    SIGNING_REQUEST_ROW,
    TOKENS,
    WORKS,
)
from muster.transport.contract.types import Action, DataType, Subresource
from muster.transport.services.writes import clusters, events, leases, signing_requests, statuses, tokens, works
from muster.transport.services.writes.request import Verb

_CREATE: Final = (Subresource.SPEC, Action.CREATE)
_UPDATE: Final = (Subresource.SPEC, Action.UPDATE)
_STATUS: Final = (Subresource.STATUS, Action.UPDATE)

VERBS: Final[Mapping[tuple[DataType, Subresource, Action], Verb]] = {
    (CLUSTERS.data_type, *_CREATE): clusters.introduce,
    (CLUSTERS.data_type, *_UPDATE): clusters.update,
    (CLUSTERS.data_type, *_STATUS): statuses.replace_status,
    (SIGNING_REQUEST_ROW.data_type, *_CREATE): signing_requests.create,
    # OCM's agents use the subresource `spec` for an addon's status too.
    (ADDONS_ALPHA.data_type, *_UPDATE): statuses.replace_status,
    (ADDONS_ALPHA.data_type, *_STATUS): statuses.replace_status,
    (ADDONS_BETA.data_type, *_UPDATE): statuses.replace_status,
    (ADDONS_BETA.data_type, *_STATUS): statuses.replace_status,
    (LEASE_ROW.data_type, *_UPDATE): leases.renew,
    (EVENT_ROW.data_type, *_CREATE): events.create,
    (EVENT_ROW.data_type, *_UPDATE): events.count,
    (TOKENS.data_type, *_CREATE): tokens.create,
    (WORKS.data_type, *_STATUS): works.report_status,
}
