import pytest

from toolscout.catalog.lint import lint
from toolscout.catalog.schema import Schema
from toolscout.catalog.tool import Tool

pytestmark = pytest.mark.behaviour("B77")


def advice(*tools: Tool) -> list[tuple[str, str]]:
    return [(p.where, p.code) for p in lint(tools)]


def described(description: str, name: str = "fetch_forecast") -> Tool:
    return Tool(name=name, description=description)


@pytest.mark.parametrize(
    ("description", "code"),
    [
        ("", "empty"),
        ("Forecast data", "short"),
        ("天気", "short"),
        ("Fetches the forecast.", "name"),
        ("A tool to fetch forecasts and return results.", "name"),
        ("This function performs various operations on data.", "generic"),
        ("Handles things and does stuff with the api.", "generic"),
        ("The national weather service.", "verb"),
        ("weather forecast weather rain weather sun weather wind weather snow weather", "stuffed"),
    ],
)
def test_a_description_that_says_too_little_is_reported_with_the_reason(description, code):
    (problem,) = lint([described(description)])
    assert (problem.where, problem.code, problem.severity) == ("fetch_forecast", code, "warning")
    assert problem.message
    assert problem.remedy


@pytest.mark.parametrize(
    "description",
    [
        "Tell how the weather of a city will be over the next five days.",
        "Service for the daily weather of any town, with rain and wind.",
        "Liest die Wettervorhersage einer Stadt.",
        "指定した都市の天気予報を取得する。",
        "Прогноз погоды по городу на пять дней.",
        "Weather outlook: rain, wind and sun by the hour. Use it before planning a trip.",
    ],
)
def test_a_description_that_says_what_it_does_is_let_alone(description):
    assert advice(described(description)) == []


def test_tools_that_share_a_description_are_reported_with_each_other():
    shared = "Read one row of the customer table."
    problems = lint(
        [described(shared, "a"), described(shared.upper(), "b"), described("Sell a car now.", "c")]
    )
    assert [(p.where, p.code) for p in problems] == [("a", "repeated"), ("b", "repeated")]
    assert "that of b." in problems[0].message


def test_arguments_without_a_description_are_listed():
    schema = {f"p{i}": {"type": "string"} for i in range(8)} | {"q": {"description": "Said."}}
    tool = Tool(
        name="x",
        description="Book a table at a restaurant.",
        parameters=Schema.of({"properties": schema}),
    )
    (problem,) = lint([tool])
    assert problem.code == "arguments"
    assert "p0, p1, p2, p3, p4 and 3 more" in problem.message


@pytest.mark.parametrize("description", ["...", "—", "\t", "1 2 3 4", "👍 👍 👍"])
def test_descriptions_without_words_do_no_harm(description):
    assert len(advice(described(description.strip()))) == 1
