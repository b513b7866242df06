import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscout.catalog.tool import normalise_name, qualify_name, wire_name


@pytest.mark.parametrize(
    "spelling",
    ["readFile", "ReadFile", "read-file", "read.file", "Read File", "READ_FILE", "_read__file_"],
)
def test_every_case_style_is_one_spelling(spelling: str):
    assert normalise_name(spelling) == "read_file"


def test_full_width_and_composed_letters_are_one_spelling_too():
    assert normalise_name("Ｒｅａｄ＿ＦＩＬＥ") == "read_file"
    assert normalise_name("cafe\u0301") == normalise_name("CAFÉ")
    assert normalise_name("Straße") == normalise_name("STRASSE")


@given(st.text())
def test_a_normalised_spelling_stays_as_it_is_under_folding(name: str):
    once = normalise_name(name)
    assert normalise_name(once.lower()) == normalise_name(once)


@pytest.mark.behaviour("C44")
@given(st.text(max_size=600), st.text(max_size=100))
def test_a_wire_name_is_accepted_by_every_provider(server: str, tool: str):
    name = wire_name(qualify_name(server, tool))
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", name)
    assert wire_name(name) == name


@pytest.mark.behaviour("C44")
def test_names_that_would_meet_when_cut_or_made_safe_stay_apart():
    long = "records__" + "list_all_the_archived_customer_records_of_" * 3
    names = [f"{long}january", f"{long}july", "mail send", "mail.send", "mail/send", "mail_send"]
    wired = [wire_name(n) for n in names]
    assert len(set(wired)) == len(names)
    assert wired[0].startswith("records__list_all_the_archived")
    assert wired[-1] == "mail_send"


@pytest.mark.behaviour("C44")
def test_the_server_stands_in_front_once():
    assert qualify_name("github", "create_issue") == "github__create_issue"
    assert qualify_name("github", "github__create_issue") == "github__create_issue"
    assert wire_name(qualify_name("git hub", "näme")).startswith("git_hub__n_me_")
