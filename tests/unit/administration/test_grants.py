"""Commands that grant what is missing: they are copied into a shell, so nothing that a manifest says may leave its word there."""

from __future__ import annotations

import shlex

from muster.administration.content.grants import Grant, commands


def test_a_namespace_with_shell_in_it_stays_one_word() -> None:
    odd = "shop; rm -rf ~"
    role, bound = commands([Grant("executor-d", "--serviceaccount=shop:d", odd, "secrets", ("get",))])
    for line in (role, bound):
        words = shlex.split(line)
        assert words[words.index("-n") + 1] == odd


def test_names_that_are_right_are_written_as_they_are() -> None:
    role, _ = commands([Grant("executor-d", "--serviceaccount=shop:d", "shop", "deployments.apps", ("get", "list"))])
    assert role.endswith(" -n shop --verb=get,list --resource=deployments.apps")
    assert "'" not in role
