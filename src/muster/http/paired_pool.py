"""Connections to servers through something that is no socket, such as a stream of another connection.

Event loops start TLS only on their own sockets. So there is a pair of sockets: TLS runs on one, and the other is connected to the
stream. The end of one ends the other.
"""

from __future__ import annotations

import abc
import asyncio
import socket

from muster.http.pool import UpstreamKey, UpstreamPool, proven_name
from muster.http.upstream import UpstreamConnection, host_port


class PairedPool(UpstreamPool, abc.ABC):
    @abc.abstractmethod
    async def lead(self, end: socket.socket) -> None:
        """Connect `end`, which is always taken over, to the server. Errors are raised unchanged."""

    async def open(self, key: UpstreamKey) -> UpstreamConnection:
        host, port, tls, _ = key
        assert tls is not None, "what is between is nobody to be trusted"
        ours, theirs = socket.socketpair()
        try:
            for one in (ours, theirs):
                one.setblocking(False)
            await self.lead(theirs)
        except BaseException:
            ours.close()
            raise
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: self.protocol(host_port(host, port)), sock=ours, ssl=tls, server_hostname=proven_name(key)
        )
        return connection
