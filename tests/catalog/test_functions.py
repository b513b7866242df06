import asyncio
import contextvars
import threading
from dataclasses import dataclass
from datetime import date
from enum import Enum
from functools import partial
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.result import Content, Result
from toolscout.catalog.tool import Annotations, Extraction, Tool
from toolscout.errors import CatalogError, SchemaError, SourceError
from toolscout.sources.functions import FunctionSource, tool, tool_of


class Line(BaseModel):
    """One line of an order."""

    sku: str = Field(description="What is bought.")
    count: int = 1


@dataclass
class Address:
    street: str
    city: str = "Paris"


class Range(TypedDict):
    low: int
    high: int


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


async def call(function: Any, arguments: dict[str, Any] | None = None) -> Result:
    source = FunctionSource([function])
    (described,) = await source.tools()
    return await source.call(described, arguments or {})


def schema(function: Any) -> dict[str, Any]:
    return tool_of(function).parameters.value


def test_a_marked_function_is_still_that_function():
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    assert tool(add) is add
    assert tool(category="math")(add) is add
    assert add(1) == 3
    assert tool_of(add).category == "math"


def test_hints_and_docstring_become_the_schema():
    @tool
    async def send_email(to: str, subject: str = "Hello", copies: list[str] | None = None) -> str:
        """Send an email message.

        Args:
            to: Who gets it.
            subject (str): What it is about,
                in a few words.
        """
        return to + subject + str(copies)

    described = tool_of(send_email)
    assert described.name == "send_email"
    assert described.description == "Send an email message."
    assert described.parameters.value == {
        "type": "object",
        "properties": {
            "to": {"type": "string", "description": "Who gets it."},
            "subject": {
                "type": "string",
                "description": "What it is about, in a few words.",
                "default": "Hello",
            },
            "copies": {
                "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
                "default": None,
            },
        },
        "required": ["to"],
        "additionalProperties": False,
    }


GOOGLE = """Move a file.

    It is not copied.

    Args:
        source: Where it is.
        target (str, optional): Where it goes:
            a folder or a name.
        **flags: Anything else.

    Returns:
        bool: whether it moved.
    """
NUMPY = """Move a file.

    It is not copied.

    Parameters
    ----------
    source : str
        Where it is.
    target : str, optional
        Where it goes:
        a folder or a name.
    **flags
        Anything else.

    Returns
    -------
    bool
        Whether it moved.
    """
SPHINX = """Move a file.

    It is not copied.

    :param source: Where it is.
    :param str target: Where it goes:
        a folder or a name.
    :type source: str
    :returns: whether it moved
    :raises OSError: if it cannot
    """


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX])
def test_docstrings_of_three_styles_describe_the_parameters(docstring: str):
    def move(source: str, target: str = ".", **flags: bool) -> bool:
        return bool(source and target and flags)

    move.__doc__ = docstring
    described = tool_of(move)
    assert described.description == "Move a file.\n\nIt is not copied."
    said = {p.name: p.description for p in described.parameters.parameters()}
    assert said == {"source": "Where it is.", "target": "Where it goes: a folder or a name."}
    assert described.parameters.value["additionalProperties"] is True


def test_a_docstring_in_no_known_form_is_all_prose():
    def odd(x: int) -> int:
        """Args: are explained below

        Note that x: is a number - see
        the manual.
        """
        return x

    assert tool_of(odd).description.startswith("Args: are explained")
    assert "the manual." in tool_of(odd).description


def test_two_parameters_may_share_one_numpy_entry():
    def span(low: int, high: int) -> int:
        """Measure.

        Parameters
        ----------
        low, high : int
            The two ends.
        """
        return high - low

    assert [p.description for p in tool_of(span).parameters.top_level()] == ["The two ends."] * 2


def test_annotated_literals_optionals_enums_and_constraints_are_kept():
    def paint(
        mode: Literal["fill", "line"],
        size: Annotated[int, Field(ge=1, le=9, description="In points.")],
        colour: Colour = Colour.RED,
        when: Optional[date] = None,  # noqa: UP045
        depth: int = Field(3, description="How deep.", ge=0),
    ) -> None:
        """Paint.

        Args:
            size: Overruled by the field.
        """

    shown = schema(paint)
    properties = shown["properties"]
    assert properties["mode"] == {"enum": ["fill", "line"], "type": "string"}
    assert properties["size"] == {
        "description": "In points.", "maximum": 9, "minimum": 1, "type": "integer"
    }  # fmt: skip
    assert properties["colour"]["default"] == "red"
    assert properties["when"]["anyOf"][0] == {"format": "date", "type": "string"}
    assert properties["depth"] == {
        "default": 3, "description": "How deep.", "minimum": 0, "type": "integer"
    }  # fmt: skip
    assert shown["required"] == ["mode", "size"]


async def test_models_dataclasses_and_typed_dicts_arrive_as_what_they_are():
    def order(lines: list[Line], to: Address, within: Range) -> list[Any]:
        """Order."""
        assert isinstance(lines[0], Line)
        assert isinstance(to, Address)
        return [lines[0].count, to.city, within["high"]]

    assert [p.name for p in tool_of(order).parameters.parameters()] == [
        "lines", "to", "within", "sku", "count", "street", "city", "low", "high"
    ]  # fmt: skip
    given = {
        "lines": [{"sku": "x", "count": "4"}],
        "to": {"street": "Rue A"},
        "within": {"low": 1, "high": 2},
    }
    assert (await call(order, given)).value == [4, "Paris", 2]


def test_names_that_pydantic_keeps_for_itself_are_fine():
    def odd(schema: str, copy: bool, _hidden: int, model_config: str, json: str = "") -> None:
        """Odd."""

    assert list(schema(odd)["properties"]) == ["schema", "copy", "_hidden", "model_config", "json"]


def test_a_function_without_hints_takes_anything():
    def plain(a, b=object()):  # noqa: B008  a default that JSON cannot say
        """Plain."""

    assert schema(plain)["properties"] == {"a": {}, "b": {}}
    assert schema(plain)["required"] == ["a"]


def test_a_model_that_comes_back_is_the_output_schema():
    def load() -> Line:
        """Load."""
        return Line(sku="x")

    output = tool_of(load).output
    assert output is not None
    assert list(output.value["properties"]) == ["sku", "count"]

    def text() -> str:
        """Text."""
        return ""

    assert tool_of(text).output is None


@pytest.mark.behaviour("E7", "E8")
def test_everything_else_can_be_said_in_the_decorator():
    said = Tool(
        name="cms_getPage",
        title="Get page",
        description="Fetch one page.",
        category="pages",
        phrases=("get page", "find page"),
        tags=("cms",),
        related=("cms_listPages",),
        usage="cms_getPage({id: 1})",
        skill="cms",
        risk="safe",
        requires_confirmation=True,
        defer="never",
        annotations=Annotations(read_only=True),
        extraction=Extraction(path="$root", type="page", name_field="name"),
        metadata='{"owner":"web"}',
    )

    @tool(
        name="cms_getPage",
        title="Get page",
        category="pages",
        phrases=["get page", "find page"],
        tags=["cms"],
        related=["cms_listPages"],
        usage="cms_getPage({id: 1})",
        skill="cms",
        risk="safe",
        requires_confirmation=True,
        defer="never",
        annotations=Annotations(read_only=True),
        extraction=Extraction(path="$root", type="page", name_field="name"),
        metadata={"owner": "web"},
    )
    def page() -> None:
        """Fetch one page."""

    described = tool_of(page)
    for key in Tool.__dataclass_fields__:
        if key != "parameters":
            assert getattr(described, key) == getattr(said, key), key
    assert described.extraction is not None
    assert (described.extraction.id_field, described.extraction.is_array) == ("id", False)


def test_a_wrong_option_is_refused_where_it_is_written():
    with pytest.raises(CatalogError, match="no option colour"):
        tool(colour="red")  # type: ignore[call-arg]
    with pytest.raises(CatalogError, match="safe"):
        tool(risk="deadly")  # type: ignore[arg-type]


def test_a_lone_text_counts_as_one_and_each_text_once():
    @tool(phrases="send an email", tags="mail", related="read_mail")
    def send() -> None:
        """Send."""

    described = tool_of(send)
    assert described.phrases == ("send an email",)
    assert (described.tags, described.related) == (("mail",), ("read_mail",))

    @tool(phrases=(text for text in ("write  to", "write to", " ")))  # type: ignore[arg-type]
    def write() -> None:
        """Write."""

    assert tool_of(write).phrases == ("write to",)
    assert tool_of(write).phrases == ("write to",)


def test_every_text_of_the_decorator_is_cleaned():
    hidden = "Ma\u202eil"

    @tool(
        name=hidden,
        title=hidden,
        description=hidden,
        category=hidden,
        phrases=[hidden],
        tags=[hidden],
        related=[hidden],
        usage=hidden,
        skill=hidden,
        metadata={"owner": hidden},
    )
    def send() -> None: ...

    described = tool_of(send)
    assert "\u202e" not in repr(described.row())
    assert (described.category, described.skill, described.meta) == (
        "Mail", "Mail", {"owner": "Mail"}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"phrases": [1]}, "phrases"),
        ({"tags": 3}, "tags"),
        ({"category": 3}, "category=…. must be str, not int"),
        ({"metadata": {"x": object()}}, "metadata=…. is not plain JSON"),
        ({"metadata": {"x": float("nan")}}, "not plain JSON"),
        ({"metadata": []}, "metadata=…. must be Mapping, not list"),
        ({"annotations": {"read_only": True}}, "must be Annotations, not dict"),
        ({"requires_confirmation": "yes"}, "must be bool, not str"),
    ],
)
def test_an_option_of_the_wrong_kind_is_refused_where_it_is_written(options: Any, said: str):
    with pytest.raises(CatalogError, match=said) as caught:
        tool(**options)
    assert caught.value.hint


class Bounds(BaseModel):
    """What is searched."""

    high: float = float("inf")
    low: float = Field(default=float("-inf"), description="The least.")


async def test_a_default_that_json_cannot_say_stays_unsaid():
    def find(
        limit: float = float("inf"),
        steps: tuple[float, ...] = (1.0, float("nan")),
        within: Bounds = Bounds(),  # noqa: B008  a default of its own is what is tried here
        least: float = Field(default=float("-inf")),
        most: int = 3,
    ) -> float:
        """Find things."""
        return most if limit == within.high == -least and len(steps) == 2 else 0

    shown = schema(find)["properties"]
    assert shown["limit"] == {"type": "number"}
    assert "default" not in shown["steps"]
    assert "default" not in shown["within"]
    assert shown["least"] == {"type": "number"}
    assert shown["most"]["default"] == 3
    assert schema(find)["$defs"]["Bounds"]["properties"] == {
        "high": {"type": "number"}, "low": {"description": "The least.", "type": "number"}
    }  # fmt: skip
    assert "required" not in schema(find)
    assert (await call(partial(find, least=float("-inf")))).value == 3


def test_a_value_that_json_cannot_express_is_reported_with_its_name():
    most = Field(json_schema_extra={"maximum": float("inf")})

    def capped(limit: Annotated[float, most]) -> None:
        """Cap."""

    with pytest.raises(SchemaError, match=r"capped: .*not plain JSON"):
        tool_of(capped)


def test_text_that_looks_like_a_field_may_be_prose():
    def role(user: str, group: str) -> None:
        """:func:`role` lists the roles of a user.

        :sparkles: Quick.

        :param user: Who :class:`User` is.
        :param group: In which group.
        """

    described = tool_of(role)
    assert described.description == ":func:`role` lists the roles of a user.\n\n:sparkles: Quick."
    assert [p.description for p in described.parameters.top_level()] == [
        "Who :class:`User` is.", "In which group."
    ]  # fmt: skip


def test_types_in_a_google_docstring_may_have_brackets_of_their_own():
    def move(a: Any, b: Any, c: Any) -> None:
        """Move.

        Args:
            a (tuple(int, int)): From (here): on.
            b (Callable[..., (int)], optional): To.
            c (int): With (more) words.
        """

    assert [p.description for p in tool_of(move).parameters.top_level()] == [
        "From (here): on.", "To.", "With (more) words."
    ]  # fmt: skip


def test_an_object_that_can_be_called_is_described_by_its_call():
    class Finder:
        """Keeps an index.

        Args:
            place: Where it is.
        """

        def __call__(self, query: str, place: str = "") -> str:
            """Find a page.

            Args:
                query: What to find.
            """
            return query + place

    class Silent:
        """Find anything."""

        def __call__(self, query: str) -> str:
            return query

    described = tool_of(Finder())
    assert described.description == "Find a page."
    assert [p.description for p in described.parameters.top_level()] == [
        "What to find.",
        "Where it is.",
    ]
    assert tool_of(Silent()).description == "Find anything."
    assert tool_of(partial(Finder(), place="x")).description == "Find a page."


@pytest.mark.parametrize("builtin", [max, dict])
def test_a_builtin_without_a_signature_says_what_to_do(builtin: Any):
    with pytest.raises(SchemaError, match=f"{builtin.__name__} does not declare") as caught:
        tool_of(builtin)
    assert "Wrap it" in caught.value.hint


def test_a_value_that_cannot_be_a_tool_is_refused_with_the_reason():
    def many(*numbers: int) -> int:
        return sum(numbers)

    class Opaque: ...

    def opaque(thing: Opaque) -> None: ...

    def unknown(thing: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(SchemaError, match=r"takes \*numbers"):
        tool_of(many)
    with pytest.raises(SchemaError, match="opaque have no JSON schema"):
        tool_of(opaque)
    with pytest.raises(SchemaError, match="Nowhere"):
        tool_of(unknown)
    with pytest.raises(CatalogError, match="without a name"):
        tool_of(lambda: 1)
    with pytest.raises(CatalogError, match="both called"):
        FunctionSource([many_named("x"), many_named("x")])


def many_named(name: str):
    @tool(name=name)
    def anything() -> None: ...

    return anything


async def test_sync_functions_run_in_a_thread_and_async_ones_in_the_loop():
    here = threading.get_ident()
    user = contextvars.ContextVar("user", default="nobody")
    user.set("ann")

    def aside() -> bool:
        return threading.get_ident() != here and user.get() == "ann"

    async def inside() -> bool:
        await asyncio.sleep(0)
        return threading.get_ident() == here

    class Later:
        """Answer later."""

        async def __call__(self, x: int) -> int:
            return x + (threading.get_ident() == here)

    assert (await call(aside)).value is True
    assert (await call(inside)).value is True
    assert (await call(Later(), {"x": 1})).value == 2
    assert (await call(partial(inside))).value is True


async def test_methods_and_partials_are_tools_too():
    class Box:
        @tool(category="box")
        def put(self, thing: str, /, count: int = 1) -> str:
            """Put a thing in."""
            return f"{count} {thing}"

    described = tool_of(Box().put)
    assert (described.name, described.category) == ("put", "box")
    assert [p.name for p in described.parameters.top_level()] == ["thing", "count"]
    assert (await call(Box().put, {"thing": "hat", "count": 2})).text == "2 hat"
    assert (await call(partial(Box().put, count=3), {"thing": "hat"})).text == "3 hat"


async def test_wrong_arguments_come_back_as_an_error_that_says_each_fault():
    def order(line: Line, count: int) -> None:
        """Order something."""

    result = await call(order, {"line": {"count": "many"}, "extra": 1})
    assert result.is_error
    for said in ("line.sku: Field required", "line.count", "count: Field required", "extra"):
        assert said in result.text
    assert "order(line: object, count: integer)" in result.text


async def test_an_exception_of_a_function_is_its_result():
    def broken() -> None:
        """Break."""
        raise RuntimeError("no disk")

    result = await call(broken)
    assert result.is_error
    assert "broken failed: RuntimeError: no disk" in result.text


@pytest.mark.parametrize(
    ("returned", "text", "value"),
    [
        ("plain", "plain", "plain"),
        (None, "", ""),
        (3, "3", 3),
        ({"a": [1]}, '{"a": [1]}', {"a": [1]}),
        (Line(sku="x"), '{"sku": "x", "count": 1}', {"sku": "x", "count": 1}),
        ([Address("A")], '[{"street": "A", "city": "Paris"}]', [{"street": "A", "city": "Paris"}]),
        ({"b", "a"}, '["a", "b"]', ["a", "b"]),
        (b"hi", "hi", "hi"),
        (Colour.RED, '"red"', "red"),
        (float("nan"), "nan", "nan"),
        (Content(type="link", uri="x:y"), "", ""),
        (Result.error("no"), "no", "no"),
    ],
)
@pytest.mark.behaviour("S24")
async def test_whatever_comes_back_is_wrapped(returned: object, text: str, value: object):
    def give() -> Any:
        return returned

    result = await call(give)
    assert result.text == text
    if returned == returned:  # a NaN has no value to compare
        assert result.value == value


async def test_a_renamed_tool_still_reaches_its_function():
    def hello() -> str:
        """Greet."""
        return "hello"

    source = FunctionSource([hello], name="mine")
    catalog = Catalog(await source.tools(), source="mine")
    catalog = catalog.with_source("other", [Tool(name="hello")])
    assert (await source.call(catalog["mine__hello"], {})).text == "hello"
    with pytest.raises(SourceError, match="has no function 'bye'"):
        await source.call(Tool(name="bye"), {})
    await source.close()
