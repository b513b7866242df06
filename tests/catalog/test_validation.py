import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.schema import Schema
from toolscout.catalog.tool import Extraction, Tool
from toolscout.catalog.validation import Expectations, ValidationReport, validate
from toolscout.errors import CatalogError, InvalidCatalogError

PAGE = Extraction(path="$root", type="page", name_field="name")
TOOLS = {
    "cms_getPage": Tool(name="cms_getPage", category="pages", extraction=PAGE),
    "cms_listPages": Tool(name="cms_listPages", category="pages", related=("cms_getPage",)),
    "plan_analyzeTask": Tool(name="plan_analyzeTask", category="planning"),
}


def schema_report(value: Any) -> ValidationReport:
    return validate([Tool(name="x", parameters=Schema.of(value))])


def codes(report: ValidationReport) -> list[tuple[str, str]]:
    return [(p.where, p.code) for p in (*report.errors, *report.warnings)]


@pytest.mark.behaviour("E20", "E28")
def test_a_catalog_whose_tools_and_entries_agree_is_valid():
    report = validate(TOOLS, Expectations(callable_names=list(TOOLS), extractors=["cms_listPages"]))
    assert report.summary() == {
        "valid": True, "tool_count": 3, "custom_extractor_count": 1, "errors": [], "warnings": []
    }  # fmt: skip
    assert report.raise_if_invalid() is report
    assert validate(Catalog(TOOLS.values())).is_valid
    assert validate([]) == ValidationReport()


@pytest.mark.behaviour("E20", "E24")
def test_a_tool_that_can_be_called_but_is_not_described_is_named():
    names = [*TOOLS, "http_get", "tool_search"]
    report = validate(TOOLS, Expectations(callable_names=names, exempt=["tool_search"]))
    assert codes(report) == [("http_get", "undescribed")]


@pytest.mark.behaviour("E25")
def test_an_entry_without_a_tool_is_named():
    report = validate(TOOLS, Expectations(callable_names=["cms_getPage", "cms_listPages"]))
    assert codes(report) == [("plan_analyzeTask", "orphan")]


@pytest.mark.behaviour("E26")
def test_an_extractor_without_a_tool_is_named():
    assert codes(validate(TOOLS, Expectations(extractors=["gone"]))) == [("gone", "extractor")]


@pytest.mark.behaviour("E27")
def test_a_tool_has_an_extraction_schema_or_an_extractor_but_not_both():
    both = Expectations(extractors=["cms_getPage", "cms_listPages"])
    assert codes(validate(TOOLS, both)) == [("cms_getPage", "extractors")]


@pytest.mark.behaviour("E24", "E27")
def test_a_tool_without_entry_is_only_missing_and_not_also_said_to_have_both():
    expected = Expectations(callable_names=[*TOOLS, "http_get"], extractors=["http_get"])
    assert codes(validate(TOOLS, expected)) == [("http_get", "undescribed")]


@pytest.mark.behaviour("E21")
def test_an_unknown_related_tool_is_a_warning_and_a_wrong_name_an_error():
    report = validate({"a": Tool(name="a", related=("gone",)), "b": Tool(name="c")})
    assert [(p.where, p.code) for p in report.errors] == [("b", "name")]
    assert [(p.where, p.code) for p in report.warnings] == [("a", "related")]
    assert validate({"a": Tool(name="a", related=("gone",))}).is_valid


@pytest.mark.behaviour("E9")
def test_a_category_must_be_declared_only_where_categories_are():
    assert validate(TOOLS).is_valid
    report = validate(TOOLS, Expectations(categories=["pages"]))
    assert codes(report) == [("plan_analyzeTask", "category")]
    assert "pages" in report.errors[0].remedy
    assert validate(TOOLS, Expectations(categories=["pages", "planning"])).is_valid


@pytest.mark.behaviour("E7")
def test_fields_that_every_tool_must_fill_are_asked_for():
    report = validate(TOOLS, Expectations(fields=["category", "phrases"]))
    assert codes(report) == [(name, "missing") for name in TOOLS]


@pytest.mark.behaviour("E8")
@pytest.mark.parametrize(
    ("path", "is_good"), [("$root", True), ("pages", True), ("a.b", False), ("a[0]", False)]
)
def test_an_extraction_path_is_one_level_deep(path, is_good):
    extraction = Extraction(path=path, type="page", name_field="name")
    assert validate([Tool(name="x", extraction=extraction)]).is_valid == is_good


@pytest.mark.behaviour("E22")
def test_every_problem_is_collected_and_raised_at_once():
    tools = {
        "a": Tool(name="b", parameters=Schema.of({"type": "text"})),
        "c": Tool(name="c", extraction=PAGE, category="odd"),
    }
    expected = Expectations(callable_names=["c", "d"], extractors=["c", "e"], categories=["pages"])
    report = validate(tools, expected)
    assert {p.code for p in report.errors} == {
        "name", "schema", "category", "undescribed", "orphan", "extractor", "extractors"
    }  # fmt: skip
    with pytest.raises(InvalidCatalogError) as caught:
        report.raise_if_invalid()
    assert caught.value.problems == tuple(report.summary()["errors"])
    assert "The catalog has 7 problems:" in str(caught.value)
    assert all(problem in str(caught.value) for problem in caught.value.problems)
    assert isinstance(caught.value, CatalogError)
    assert caught.value.code == "invalid_catalog"
    assert all(p.where and p.remedy for p in report.errors)


def test_two_tools_of_one_name_are_an_error():
    assert codes(validate([Tool(name="x"), Tool(name="x")])) == [("x", "duplicate")]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "strin"}, "'strin' is not valid"),
        ({"properties": {"a": {"type": ["string", "string"]}}}, "is not valid"),
        ({"properties": []}, "[] is not of type 'object'"),
        ({"required": "a"}, "'a' is not of type 'array'"),
        ({"properties": {"a": {"minLength": -1}}}, "-1 is less than the minimum"),
        ({"properties": {"a": {"items": 3}}}, "3 is not of type"),
        ({"anyOf": []}, "[] should be non-empty"),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "required": []}, "non-empty"),
        ({"patternProperties": {"a": 7}}, "7 is not of type"),
    ],
)
def test_an_invalid_schema_is_an_error_with_its_place(schema, said):
    (problem,) = schema_report(schema).errors
    assert said in problem.message
    assert "$" in problem.message


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {},
        {"type": "object", "properties": {"a": True, "b": {"type": ["string", "null"]}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"const": 1}}},
        {"properties": {"a": {"exclusiveMinimum": 3, "x-custom": object.__name__}}},
        {"$defs": {"A": {"type": "object"}}, "properties": {"a": {"$ref": "#/$defs/A"}}},
        {"prefixItems": [{"type": "string"}, {"$ref": "#/prefixItems/0"}]},
    ],
)
def test_a_good_schema_is_let_pass(schema):
    assert schema_report(schema) == ValidationReport(tool_count=1)


def test_a_reference_that_leads_nowhere_is_a_warning():
    report = schema_report({"properties": {"a": {"$ref": "#/$defs/Gone"}}})
    assert report.is_valid
    assert "'#/$defs/Gone' is not defined" in report.warnings[0].message


def test_schemas_beyond_checking_are_said_to_be_and_do_not_stop_the_rest():
    wide = {"patternProperties": {f"p{i}": {"description": "x" * 100} for i in range(5_000)}}
    deep: dict[str, Any] = {}
    for _ in range(90):
        deep = {"not": {"not": deep}}
    tools = [
        Tool(name="wide", parameters=Schema.of(wide)),
        Tool(name="deep", parameters=Schema.of(deep)),
    ]
    report = validate([*tools, Tool(name="bad", parameters=Schema.of({"type": 1}))])
    assert [p.where for p in report.warnings] == ["wide", "deep"]
    assert [p.where for p in report.errors] == ["bad"]


WORDS = st.sampled_from(
    [
        "type",
        "properties",
        "items",
        "anyOf",
        "required",
        "enum",
        "string",
        "object",
        "minLength",
        "$ref",
        "x",
    ]
)
VALUES = st.recursive(
    WORDS | st.booleans() | st.integers(-2, 2) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(WORDS, VALUES))
def test_the_quick_check_lets_nothing_pass_that_the_metaschema_refuses(value):
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(json.loads(json.dumps(value)))
        is_good = True
    except SchemaError:
        is_good = False
    assert schema_report(value).is_valid == is_good
