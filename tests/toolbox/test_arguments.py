"""Arguments are checked against the real schema, and mended where nothing is lost."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscout.catalog.schema import Schema
from toolscout.errors import InvalidArgumentsError, SchemaError
from toolscout.toolbox.arguments import fit_arguments


def takes(*required: str, **properties: Any) -> Schema:
    return Schema.of({"type": "object", "properties": properties, "required": [*required]})


INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
STRING = {"type": "string"}
LIST = {"type": "array", "items": STRING}
OBJECT = {"type": "object", "properties": {"n": INTEGER}, "required": ["n"]}


@pytest.mark.parametrize(
    ("schema", "given", "wanted"),
    [
        (INTEGER, "5", 5),
        (INTEGER, "-17", -17),
        (NUMBER, "2.50", 2.5),
        (NUMBER, "1e3", 1000.0),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "False", False),
        (STRING, 42, "42"),
        (OBJECT, '{"n": 1}', {"n": 1}),
        (OBJECT, '{"n": "1"}', {"n": 1}),
        (LIST, '["a", "b"]', ["a", "b"]),
        (LIST, "a", ["a"]),
        (LIST, 7, ["7"]),
        ({"type": "array", "items": INTEGER}, "7", [7]),
        ({"type": "array", "items": OBJECT}, {"n": "3"}, [{"n": 3}]),
        ({"type": ["integer", "null"]}, "5", 5),
        ({"type": ["integer", "null"]}, "null", None),
        ({"anyOf": [INTEGER, {"type": "null"}]}, "5", 5),
        ({"oneOf": [OBJECT, {"type": "boolean"}]}, '{"n": 2}', {"n": 2}),
        ({"$ref": "#/$defs/o"}, '{"n": "4"}', {"n": 4}),
        ({**INTEGER, "minimum": 3}, "5", 5),
    ],
)
def test_equivalent_arguments_in_another_form_are_accepted(schema: Any, given: Any, wanted: Any):
    whole = {"type": "object", "properties": {"x": schema}, "$defs": {"o": OBJECT}}
    assert fit_arguments({"x": given}, Schema.of(whole)) == {"x": wanted}


@pytest.mark.parametrize(
    ("schema", "given"),
    [
        (INTEGER, "5.5"),
        (INTEGER, "05"),
        (INTEGER, "+5"),
        (INTEGER, " 5"),
        (INTEGER, "five"),
        (INTEGER, 5.5),
        (INTEGER, True),
        (INTEGER, "9" * 5_000),
        (NUMBER, "NaN"),
        (NUMBER, "1e9999"),
        ({"type": "boolean"}, "yes"),
        ({"type": "boolean"}, 1),
        (STRING, 1.5),
        (STRING, True),
        (STRING, {"a": 1}),
        (OBJECT, "[1]"),
        (OBJECT, '{"n": "x"}'),
        ({**INTEGER, "maximum": 3}, "5"),
        ({"enum": ["a", "b"]}, "A"),
    ],
)
def test_a_repair_that_would_be_a_guess_is_refused(schema: Any, given: Any):
    with pytest.raises(InvalidArgumentsError, match=r"^x"):
        fit_arguments({"x": given}, takes(x=schema))


def test_arguments_that_already_fit_are_unchanged():
    given = {"x": "5", "more": [1, {"deep": None}]}
    assert fit_arguments(given, takes(x=STRING)) == given


def test_the_caller_keeps_its_own_arguments():
    given = {"x": {"n": "1"}}
    assert fit_arguments(given, takes(x=OBJECT)) == {"x": {"n": 1}}
    assert given == {"x": {"n": "1"}}


def test_null_for_something_optional_means_not_given():
    schema = takes("a", a=STRING, b=INTEGER)
    assert fit_arguments({"a": "x", "b": None}, schema) == {"a": "x"}
    with pytest.raises(InvalidArgumentsError, match="a: None is not of type 'string'"):
        fit_arguments({"a": None}, schema)


def test_several_typos_are_corrected_together():
    schema = takes(a=INTEGER, b={"type": "boolean"}, c=LIST, d=OBJECT)
    given = {"a": "1", "b": "true", "c": "x", "d": '{"n": "2"}'}
    assert fit_arguments(given, schema) == {"a": 1, "b": True, "c": ["x"], "d": {"n": 2}}


def test_a_long_list_of_typos_is_corrected_too():
    schema = takes(numbers={"type": "array", "items": INTEGER})
    given = {"numbers": [str(n) for n in range(500)]}
    assert fit_arguments(given, schema) == {"numbers": [*range(500)]}


def test_errors_say_where_and_what():
    schema = takes("to", to=STRING, items={"type": "array", "items": OBJECT})
    with pytest.raises(InvalidArgumentsError) as caught:
        fit_arguments({"items": [{"n": 1}, {"n": "x"}]}, schema)
    assert "arguments: 'to' is a required property" in caught.value.message
    assert "items[1].n: 'x' is not of type 'integer'" in caught.value.message


def test_many_errors_are_reported_in_a_few_words():
    schema = takes(items={"type": "array", "items": OBJECT})
    with pytest.raises(InvalidArgumentsError) as caught:
        fit_arguments({"items": ["x" * 100_000] * 300}, schema)
    assert len(caught.value.message) < 2_500
    assert "and 295 more" in caught.value.message


def test_a_parameter_that_does_not_exist_is_named():
    schema = Schema.of({"type": "object", "properties": {}, "additionalProperties": False})
    with pytest.raises(InvalidArgumentsError, match="no parameter 'colour'"):
        fit_arguments({"colour": 1}, schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"x": {"type": "whole number"}}},
        {"type": "object", "properties": {"x": {"$ref": "https://example.com/elsewhere.json"}}},
        {"type": "object", "properties": {"x": {"$ref": "#/nowhere"}}},
        {"type": "object", "properties": {"x": {"$ref": "#/properties/x"}}},
        {"type": "object", "properties": "none"},
        {"type": "object", "properties": {"x": {"minimum": "low"}}},
        {"required": True},
    ],
)
def test_an_invalid_schema_is_reported_with_what_to_do(schema: Any):
    with pytest.raises(SchemaError, match=r"not valid JSON Schema.*Report it to the tool's author"):
        fit_arguments({"x": 3}, Schema.of(schema))


def test_a_flaw_that_is_not_touched_does_no_harm():
    schema = Schema.of({"type": "object", "properties": {"x": INTEGER, "y": {"type": "int"}}})
    assert fit_arguments({"x": "3"}, schema) == {"x": 3}


@pytest.mark.parametrize("keyword", ["pattern", "patternProperties", "additionalProperties"])
def test_a_pattern_that_would_never_end_ends(keyword: str):
    bad = "^(a+)+$"
    text = "a" * 40 + "!"
    if keyword == "pattern":
        schema, given = takes(x={"type": "string", "pattern": bad}), {"x": text}
    else:
        whole = {"type": "object", "patternProperties": {bad: STRING}}
        schema, given = Schema.of({**whole, "additionalProperties": False}), {text: "x"}
    with pytest.raises(InvalidArgumentsError):
        fit_arguments(given, schema)


def test_a_pattern_only_other_engines_know_is_left_to_the_tool():
    schema = takes(x={"type": "string", "pattern": "^(?!admin)"})
    assert fit_arguments({"x": "admin"}, schema) == {"x": "admin"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON, max_size=4), st.dictionaries(st.text(), JSON, max_size=3))
def test_any_arguments_against_any_schema_end_in_one_of_three_ways(arguments: Any, schema: Any):
    with suppress(InvalidArgumentsError, SchemaError):
        json.dumps(fit_arguments(arguments, Schema.of({"type": "object", **schema})))


@given(st.integers(-(10**30), 10**30), st.booleans(), st.lists(st.text()))
def test_stringified_values_come_back_exactly(number: int, flag: bool, texts: list[str]):
    schema = takes(a=INTEGER, b={"type": "boolean"}, c=LIST)
    given = {"a": str(number), "b": json.dumps(flag), "c": json.dumps(texts)}
    assert fit_arguments(given, schema) == {"a": number, "b": flag, "c": texts}


@pytest.mark.parametrize("given", ["1e999", "-1e400", "NaN", "Infinity"])
def test_text_that_is_not_a_json_number_is_not_converted(given: str):
    with pytest.raises(InvalidArgumentsError, match="is not of type 'number'"):
        fit_arguments({"it": given}, takes("it", it=NUMBER))


@pytest.mark.parametrize("wanted", [LIST, {"anyOf": [LIST, {"type": "null"}]}])
def test_a_list_written_as_text_is_never_taken_for_one_of_its_members(wanted: Any):
    assert fit_arguments({"it": '["a", "b"]'}, takes("it", it=wanted)) == {"it": ["a", "b"]}
    with pytest.raises(InvalidArgumentsError, match="it"):
        fit_arguments({"it": '["a", [1]]'}, takes("it", it=wanted))
