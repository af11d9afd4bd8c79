"""The table of served resources: which rows show the same stored objects, also after definitions come and go."""

from dataclasses import replace

from muster.apiserver.builtin.resources import builtin_table
from muster.apiserver.registry.table import ResourceTable


def test_rows_of_one_storage_follow_definitions_that_come_and_go() -> None:
    table = ResourceTable(builtin_table())
    deployments = table.get("apps", "v1", "deployments")
    assert deployments is not None
    assert table.stored_as(deployments.storage) == (deployments,)
    assert table.stored_as("example.com/things") == ()
    things = [
        replace(deployments, group="example.com", version=version, plural="things", storage="example.com/things")
        for version in ("v1", "v2")
    ]
    table.replace_custom("example.com", "things", things)
    assert table.stored_as("example.com/things") == tuple(things)
    table.replace_custom("example.com", "things", things[:1])
    assert table.stored_as("example.com/things") == (things[0],)
    table.replace_custom("example.com", "things", ())
    assert table.stored_as("example.com/things") == ()
