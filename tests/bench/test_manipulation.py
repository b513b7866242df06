from bench.manipulation import Attack, attacks, outcome

from toolscout.evals.dataset import LabelledQuery

TOOLS = [
    {"name": "send_email", "description": "Send an email message.", "parameters": {}},
    {"name": "get_weather", "description": "Weather forecast for a city.", "parameters": {}},
]
ATTACK = Attack("shadow", TOOLS, {"send_email": frozenset({"best_send_email"})})


def asked(*targets: str) -> list[LabelledQuery]:
    return [LabelledQuery(str(n), "query", (frozenset({t}),)) for n, t in enumerate(targets)]


def test_every_target_gets_hostile_tools_of_its_own_and_the_real_ones_stay():
    found = {a.name: a for a in attacks(TOOLS, ["send_email"], ["mail Ann", "mail Bob"])}
    assert set(found) == {"stuffed", "boastful", "shadow", "magnet"}
    for attack in found.values():
        assert all(row in attack.rows for row in TOOLS)
        by_name = {row["name"]: row for row in attack.rows}
        assert len(by_name) == len(TOOLS) + len(attack.against("send_email"))
        assert set(by_name) >= attack.against("send_email")
    shadows = [r for r in found["shadow"].rows if r["name"].endswith("_send_email")]
    assert {row["description"] for row in shadows} == {"Send an email message."}
    stuffed = [r for r in found["stuffed"].rows if "assistant" in r["name"]]
    assert all(row["description"].count("email") > 20 for row in stuffed)


def test_a_tool_overtaken_but_still_shown_is_not_displaced():
    before = [["send_email", "get_weather"]]
    after = [["best_send_email", "send_email", "get_weather"]]
    found = outcome(ATTACK, asked("send_email"), before, after)
    assert (found["displaced"]["mean"], found["overtaken"]["mean"]) == (0.0, 1.0)


def test_a_tool_that_is_no_longer_shown_is_displaced():
    after = [["a", "b", "c", "d", "best_send_email", "send_email"]]
    found = outcome(ATTACK, asked("send_email"), [["send_email"]], after)
    assert (found["displaced"]["mean"], found["overtaken"]["mean"]) == (1.0, 1.0)


def test_a_tool_pushed_down_by_a_harmless_one_is_not_overtaken():
    found = outcome(ATTACK, asked("send_email"), [["send_email"]], [["get_weather", "send_email"]])
    assert found["overtaken"]["mean"] == 0.0


def test_queries_whose_tool_was_not_found_before_do_not_count():
    found = outcome(ATTACK, asked("send_email", "get_weather"), [["x"], ["get_weather"]], [[], []])
    assert found["queries"] == 1


def test_magnets_are_hostile_to_every_target():
    (magnet,) = [a for a in attacks(TOOLS, [], ["mail Ann"]) if a.name == "magnet"]
    after = [[min(magnet.against("get_weather")), "get_weather"]]
    found = outcome(magnet, asked("get_weather"), [["get_weather"]], after)
    assert found["overtaken"]["mean"] == 1.0
