"""mapRoles edited as text: others' entries and comments stay byte for byte, and what cannot be edited safely is not."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.registration.drivers.awsirsa.awsauth import Mapped, Unreadable, edited, mapped_roles

ROLE = "arn:aws:iam::111111111111:role/ocm-hub-a21fefa5047b57e2e7876e799a5595de"
OURS = Mapped(ROLE, "open-cluster-management:c1", ("system:open-cluster-management:c1",))
WRITTEN = f"- rolearn: {ROLE}\n  username: open-cluster-management:c1\n  groups:\n  - system:open-cluster-management:c1\n"
NODES = """\
# nodes: do not touch
- rolearn: arn:aws:iam::111111111111:role/nodes   # the ASG's
  username: system:node:{{EC2PrivateDNSName}}
  groups:
    - system:bootstrappers
    - "system:nodes"

# administrators
-   groups: [ system:masters ]
    rolearn:    arn:aws:iam::111111111111:role/admin
    username: 'admin'
"""


def test_an_entry_comes_in_at_the_end_and_goes_again():
    with_ours = edited(NODES, [OURS])
    assert with_ours == NODES + WRITTEN
    assert edited(with_ours, [OURS]) == with_ours
    assert edited(with_ours, [], [ROLE]) == NODES
    assert edited(NODES, [], [ROLE]) == NODES


@pytest.mark.parametrize("text", ["", "\n", "# nobody yet\n", "[]", "[]\n"])
def test_into_a_map_without_entries(text):
    after = edited(text, [OURS])
    assert mapped_roles(after) == [{"rolearn": ROLE, "username": OURS.username, "groups": list(OURS.groups)}]
    assert ("# nobody" in after) == ("#" in text)


def test_a_list_that_is_indented():
    text = "  - rolearn: a\n    username: b\n"
    after = edited(text, [OURS])
    assert after.startswith(text)
    assert len(mapped_roles(after)) == 2
    assert edited(after, [], [ROLE]) == text


def test_a_list_in_brackets():
    text = '[{"rolearn": "a", "groups": ["x"]}, {"rolearn": "b"}]'
    after = edited(text, [OURS])
    assert after.startswith(text[:-1])
    assert [entry["rolearn"] for entry in mapped_roles(after)] == ["a", "b", ROLE]
    assert edited(after, [], [ROLE]) == text
    assert mapped_roles(edited(after, [OURS], ["a"]))[0] == {"rolearn": "b"}


def test_an_entry_in_the_middle_goes_with_its_lines_alone():
    text = NODES.replace("# administrators", f"{WRITTEN}# administrators")
    assert edited(text, [], [ROLE]) == NODES


def test_what_somebody_changed_is_put_back_and_doubles_go():
    theirs = WRITTEN.replace("system:open-cluster-management:c1", "system:masters")
    shouted = WRITTEN.replace(ROLE, ROLE.upper())
    after = edited(NODES + theirs + shouted, [OURS])
    assert after == NODES + WRITTEN


def test_an_entry_for_our_role_counts_in_whatever_letters_its_fields_are():
    """To EKS it does, and after ours it would count instead of ours."""
    theirs = f"- roleARN: {ROLE}\n  username: mallory\n"
    assert edited(WRITTEN + theirs, [OURS]) == WRITTEN
    assert edited(NODES + theirs, [], [ROLE]) == NODES
    harmless = f"- roleARN: {ROLE}\n  rolearn: x\n  username: jo\n"
    assert edited(harmless, [], [ROLE]) == harmless


@pytest.mark.parametrize(
    "text",
    [
        "rolearn: a",
        "- just a text",
        "- rolearn: [",
        "text",
        "- {a: b}\n...\n",
        "42",
        "- &x {rolearn: a}\n- *x\n--- \n- b: c",
    ],
)
def test_what_is_no_list_of_mappings_is_not_touched(text):
    with pytest.raises(Unreadable):
        edited(text, [OURS])


ARNS = st.integers(0, 6).map(lambda n: f"arn:aws:iam::111111111111:role/r{n}")
ENTRY = st.fixed_dictionaries(
    {"rolearn": ARNS, "username": st.text(max_size=8)}, optional={"groups": st.lists(st.text(max_size=5), max_size=3)}
)


@given(st.lists(ENTRY, max_size=5), st.sets(ARNS, max_size=3), st.sets(ARNS, max_size=3), st.sampled_from([None, True, False]))
def test_others_entries_are_never_changed(entries, wanted, unwanted, flow):
    text = yaml.safe_dump(entries, default_flow_style=flow, allow_unicode=True)
    ours = [Mapped(arn, "open-cluster-management:c", ("g",)) for arn in sorted(wanted)]
    try:
        after = mapped_roles(edited(text, ours, sorted(unwanted - wanted)))
    except Unreadable:
        return
    touched = wanted | unwanted
    assert [entry for entry in after if entry["rolearn"] not in touched] == [
        entry for entry in mapped_roles(text) if entry["rolearn"] not in touched
    ]
    assert sorted(entry["rolearn"] for entry in after if entry["rolearn"] in touched) == sorted(wanted)
    assert all(one.matches(entry) for one in ours for entry in after if entry["rolearn"] == one.role_arn)
