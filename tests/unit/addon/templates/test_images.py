"""Where images come from: mirrors at path boundaries, the last that matches, and the cluster's annotation where nothing is said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.addon.agent_addon import AddonError
from muster.addon.templates.images import REGISTRIES_ANNOTATION, mirrored
from muster.api.addon.v1alpha1 import ImageMirror
from tests.support.template_addons import config_of, container_of, deployment, pod_of, rendered, template_of


def mirror(source: str, target: str) -> ImageMirror:
    return ImageMirror(source=source, mirror=target)


@pytest.mark.parametrize(
    ("image", "registries", "expected"),
    [
        ("reg/foo/x:v1", [("reg/foo", "m/bar")], "m/bar/x:v1"),
        ("reg/foobar/x:v1", [("reg/foo", "m/bar")], "reg/foobar/x:v1"),
        ("reg/foo:v1", [("reg/foo", "m/bar")], "m/bar:v1"),
        ("reg/foo@sha256:ab", [("reg/foo", "m/bar")], "m/bar@sha256:ab"),
        ("reg/foo", [("reg/foo", "m/bar")], "m/bar"),
        ("reg/foo/x", [("reg/foo/", "m/bar/")], "m/bar/x"),
        ("reg/foo:v12", [("reg/foo:v1", "m/bar:v1")], "reg/foo:v12"),
        ("reg/foo/x", [("reg/foo", "first"), ("reg", "second")], "second/foo/x"),
        ("reg/foo/x", [("reg/foo", "first"), ("other", "second")], "first/x"),
        ("reg:5000/foo/x:v1", [("", "m")], "m/x:v1"),
        ("x:v1", [("", "m")], "m/x:v1"),
        ("reg/foo/x:v1", [("", "")], "x:v1"),
        ("reg/foo/x:v1", [], "reg/foo/x:v1"),
    ],
)
def test_a_source_stands_for_itself_and_what_is_below_it(image: str, registries: list[tuple[str, str]], expected: str) -> None:
    assert mirrored(image, [mirror(*pair) for pair in registries]) == expected


@given(st.lists(st.sampled_from("abc"), min_size=1).map("".join), st.lists(st.sampled_from("ab/:@"), min_size=1).map("".join))
def test_only_images_at_a_boundary_of_the_source_change(source: str, rest: str) -> None:
    """Defect 22: `reg/foo` is no part of `reg/foobar/x`."""
    image = source + rest
    changed = mirrored(image, [mirror(source, "mirror")])
    assert changed == ("mirror" + rest if rest[0] in "/:@" else image)


def test_a_configured_list_replaces_the_clusters() -> None:
    annotation = {REGISTRIES_ANNOTATION: '{"registries":[{"source":"reg.example","mirror":"by.annotation"}]}'}
    assert container_of(rendered(template_of(deployment()), annotations=annotation))["image"] == "by.annotation/team/hello:v1"
    config = config_of(registries=[{"source": "reg.example/team", "mirror": "by.config"}])
    assert container_of(rendered(template_of(deployment()), config, annotations=annotation))["image"] == "by.config/hello:v1"


def test_init_containers_come_from_the_same_registries() -> None:
    manifest = deployment()
    manifest["spec"]["template"]["spec"]["initContainers"] = [{"name": "init", "image": "reg.example/init"}]
    agent = rendered(template_of(manifest), config_of(registries=[{"source": "reg.example", "mirror": "m"}]))
    assert pod_of(agent)["initContainers"] == [{"name": "init", "image": "m/init"}]


@pytest.mark.parametrize("text", ["{", "[]", '{"registries":3}', '{"registries":[{"source":"a"}]}', "null"])
def test_an_annotation_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(AddonError, match=REGISTRIES_ANNOTATION):
        rendered(template_of(deployment()), annotations={REGISTRIES_ANNOTATION: text})
