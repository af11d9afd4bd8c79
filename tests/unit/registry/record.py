"""Asks a real server for its verdicts on all inputs and writes data/verdicts.json and data/cells.json.

Usage: python -m tests.unit.registry.record URL CA-FILE TOKEN

Everything is sent as a dry run, except objects that are to be updated or shown, which are created and deleted again.
"""

from __future__ import annotations

import json
import re
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.client import Client, Reply
from tests.unit.registry.inputs.accepted import ACCEPTED
from tests.unit.registry.inputs.refused import REFUSED
from tests.unit.registry.inputs.statuses import STATUSES
from tests.unit.registry.inputs.updates import UPDATES
from tests.unit.registry.judge import NAMESPACE, UID, Verdict, comparable, merged, named, path, row

DATA = Path(__file__).parent / "data"
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_DRY = {"dryRun": "All"}


def _verdict(reply: Reply) -> Verdict:
    if reply.status >= 300:
        return {"message": _UUID.sub(UID, reply.json["message"])}
    return {"object": comparable(reply.json)}


def _created(client: Client, place: int, api_version: str, kind: str, body: dict[str, Any]) -> Verdict:
    resource = row(api_version, kind)
    return _verdict(client.post(path(resource), named(api_version, kind, body, f"t{place}"), query=_DRY))


def _updated(client: Client, place: int, api_version: str, kind: str, body: dict[str, Any], patch: dict[str, Any]) -> Verdict:
    resource = row(api_version, kind)
    name = f"registry-u{place}"
    client.post(path(resource), named(api_version, kind, body, name)).expect(201)
    where = f"{path(resource)}/{name}"
    held = client.get(where).expect(200)
    verdict = _verdict(client.put(where, merged(held, patch), query=_DRY))
    client.patch(where, {"metadata": {"finalizers": None}})
    client.delete(where, query={"gracePeriodSeconds": "0"})
    return verdict


def _cells(client: Client, place: int, api_version: str, kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """An object as stored, with a status, and the Table row the server shows for it at a given time."""
    resource = row(api_version, kind)
    obj = named(api_version, kind, body, f"registry-c{place}")
    client.post(path(resource), obj).expect(201)
    where = f"{path(resource)}/{obj['metadata']['name']}"
    if kind in STATUSES:
        client.patch(f"{where}/status", {"status": STATUSES[kind]}).expect(200)
    table = client.get(where, accept=_TABLE, query={"includeObject": "Object"}).expect(200)
    stored = table["rows"][0]["object"]
    now = datetime.now(UTC).isoformat()
    if kind != "Namespace":
        client.patch(where, {"metadata": {"finalizers": None}})
    client.delete(where, query={"gracePeriodSeconds": "0"})
    stored["metadata"].pop("managedFields", None)
    columns = [column["name"] for column in table["columnDefinitions"]]
    return {"object": stored, "columns": columns, "cells": table["rows"][0]["cells"], "at": now}


def main() -> None:
    url, ca, token = sys.argv[1:]
    client = Client(url, ca=Path(ca), token=token)
    client.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).expect(201, 409)
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
    deadline = time.monotonic() + 20
    while client.get(account).status != 200 and time.monotonic() < deadline:
        time.sleep(0.1)
    verdicts = {
        "accepted": [_created(client, place, *item) for place, item in enumerate(ACCEPTED)],
        "refused": [_created(client, place, *item) for place, item in enumerate(REFUSED)],
        "updates": [_updated(client, place, *item) for place, item in enumerate(UPDATES)],
    }
    cells = [_cells(client, place, *item) for place, item in enumerate(ACCEPTED)]
    client.delete(f"/api/v1/namespaces/{NAMESPACE}")
    (DATA / "verdicts.json").write_text(json.dumps(verdicts, indent=1, sort_keys=True) + "\n")
    (DATA / "cells.json").write_text(json.dumps(cells, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
