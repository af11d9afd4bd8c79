"""botocore at a given time: it asks the machine for it."""

from __future__ import annotations

from datetime import datetime
from unittest import mock

import botocore.auth


def botocore_at(now: datetime):
    """A context in which botocore signs as of `now`."""
    return mock.patch.object(botocore.auth, "get_current_datetime", return_value=now.replace(tzinfo=None))
