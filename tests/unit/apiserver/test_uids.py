"""Uids of new objects."""

import uuid

from muster.apiserver.object_meta import new_uid


def test_a_uid_is_a_random_uuid_in_canonical_form() -> None:
    uids = [new_uid() for _ in range(1000)]
    for text in uids:
        parsed = uuid.UUID(text)
        assert (parsed.version, parsed.variant, str(parsed)) == (4, uuid.RFC_4122, text)
    assert len(set(uids)) == len(uids)
