"""The client certificate that a cluster's API server presents to webhooks.

It is issued by the cluster's front-proxy CA under a separate name, so that a server behind the aggregation layer, which trusts the
user headers of `front-proxy-client`, does not accept it. It is created on first use and renewed after half of its lifetime.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from muster.apiserver.auth.cluster_keys import ClusterKeyStore
from muster.kube.certificates import KeyPair

WEBHOOK_CLIENT: Final = "kube-apiserver-webhook-client"
LIFETIME: Final = timedelta(days=30)


class WebhookIdentity:
    def __init__(self, key_store: ClusterKeyStore, clock: Callable[[], datetime]) -> None:
        self._key_store = key_store
        self._clock = clock
        self._pair: KeyPair | None = None
        self._renew_at: datetime | None = None

    async def pair(self) -> KeyPair:
        """The current certificate and key; renewed after half of the lifetime."""
        now = self._clock()
        if self._pair is None or self._renew_at is None or now >= self._renew_at:
            keys = await self._key_store.keys(now)
            self._pair = keys.proxy_ca.issue(WEBHOOK_CLIENT, now, LIFETIME)
            self._renew_at = now + LIFETIME / 2
        return self._pair
