"""The identities a server gives out itself."""

from __future__ import annotations

from muster.machinery.authentication import AUTHENTICATED, MASTERS, UserInfo

LOOPBACK = UserInfo("system:apiserver", groups=(MASTERS, AUTHENTICATED))
"""The server's own controllers."""
