"""The identities of the server's own clients."""

from __future__ import annotations

from muster.machinery.authentication import AUTHENTICATED, MASTERS, UserInfo

LOOPBACK = UserInfo("system:apiserver", groups=(MASTERS, AUTHENTICATED))
"""The user of the built-in controllers."""
