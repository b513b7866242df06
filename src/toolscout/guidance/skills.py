"""Skills feature: two tools that find a skill and read it with its files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from ..catalog.catalog import Catalog
from ..catalog.problem import Problem
from ..catalog.result import Result
from ..catalog.tool import Tool, normalise_name
from ..disclosure.feature import CallerSession, Feature
from ..disclosure.profile import SkillMatching, SkillStyle
from ..search.engine import Engine
from ..search.hit import Hit, Results
from ..tokens import TokenCounter, default_counter
from .skill import MANIFEST, Skill, SkillLibrary, read_library, split_front_matter
from .skill_tools import other_style, skill_tool_definitions, tool_name
from .text_files import (
    MAX_BYTES,
    TextFileError,
    UnsafePathError,
    list_files,
    read_text,
    resolve_inside,
)

BUDGET_TOKENS = 1_500
_LIMIT = 5
# Below this confidence of the search, a hit of semantic search alone is not shown.
_MIN_CONFIDENCE = 0.3


class Skills(Feature):
    """The skills in some folders, searched with the engine that searches tools.

    `style` names the tools `search_skills` or `searchSkills`. `literal` matching only looks for
    the query in a skill's own words, as design A does; `ranked` adds what the engine finds.
    `budget_tokens` limits the list in the prompt and the answer of a search.
    """

    health_key = "skills"

    def __init__(
        self,
        *folders: Path | str,
        engine: Engine | None = None,
        style: SkillStyle = "snake",
        matching: SkillMatching = "ranked",
        budget_tokens: int = BUDGET_TOKENS,
        max_bytes: int = MAX_BYTES,
        counter: TokenCounter | None = None,
    ) -> None:
        self._folders = tuple(Path(folder) for folder in folders)
        self._engine = engine or Engine()
        self._style: SkillStyle = style
        self._matching: SkillMatching = matching
        self._budget_tokens = budget_tokens
        self._max_bytes = max_bytes
        self._counter = counter or default_counter()
        self._library = SkillLibrary()
        self._tools_by_skill: dict[str, tuple[str, ...]] = {}
        self._tool_names: frozenset[str] = frozenset()
        self.reload()

    @property
    def library(self) -> SkillLibrary:
        """The skills as they were last read."""
        return self._library

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Skills that could not be read, or have the name of another."""
        return self._library.problems

    def reload(self) -> None:
        """Read the folders again."""
        self._library = read_library(self._folders, max_bytes=self._max_bytes)
        tools = [skill.as_tool() for skill in self._library.skills.values()]
        self._engine.update(Catalog(tools, source="skills"))

    def update_tools(self, tools: Iterable[Tool]) -> tuple[Problem, ...]:
        """Record which tools refer to which skill; report those whose skill does not exist."""
        tools_by_skill: dict[str, list[str]] = {}
        problems: list[Problem] = []
        names: list[str] = []
        for tool in tools:
            names.append(tool.name)
            if not tool.skill:
                continue
            skill = self._library.find(tool.skill)
            if skill is None:
                message = f"refers to the skill {tool.skill!r}, which does not exist."
                problems.append(Problem(tool.name, message, "Fix the id.", "warning"))
            else:
                tools_by_skill.setdefault(skill.id, []).append(tool.name)
        self._tool_names = frozenset(names)
        self._tools_by_skill = {key: tuple(found) for key, found in tools_by_skill.items()}
        return tuple(problems)

    def health(self) -> tuple[Literal["ok", "degraded"], dict[str, Any]]:
        """The status of the skills: degraded while one cannot be read."""
        problems = [str(problem) for problem in self.problems]
        facts = {"skills": len(self._library.skills), "problems": problems}
        return "degraded" if problems else "ok", facts

    def prompt_list(self) -> str:
        """One line per skill for the prompt, up to the budget; empty without skills."""
        skills = list(self._library.skills.values())
        lines = list(
            self._fit_budget(f"- **{s.name}** (`{s.id}`): {s.description}" for s in skills)
        )
        if more := len(skills) - len(lines):
            lines.append(f"- … and {more} more: use {tool_name('search_skills', self._style)}.")
        return "\n".join(lines)

    def introduction(self) -> str:
        """The list of skills with a line on how to use it, for the instructions."""
        read = tool_name("read_skill", self._style)
        text = f"Skills: read one with `{read}` before a task that it is for.\n{self.prompt_list()}"
        return text if self._library.skills else ""

    # The tools

    def tools(self) -> tuple[Tool, ...]:
        """The two tools in the chosen style; none without skills."""
        return skill_tool_definitions(self._style) if self._library.skills else ()

    def alias_tools(self) -> tuple[Tool, ...]:
        """The same tools in the other style, for models that guess the name."""
        return skill_tool_definitions(other_style(self._style)) if self._library.skills else ()

    async def call(
        self, session: CallerSession, tool: Tool, arguments: Mapping[str, Any]
    ) -> Result:
        """Run one of the tools; tools that the caller may not use are not named."""
        match normalise_name(tool.name):
            case "search_skills":
                return await asyncio.to_thread(self.search, str(arguments.get("query", "")))
            case "read_skill":
                file = arguments.get("file")
                skill_id = str(arguments.get("skillId", ""))
                return await asyncio.to_thread(
                    self.read, skill_id, str(file) if file else None, session=session
                )
            case _:
                return _error_result(f"There is no skill tool {tool.name!r}.")

    def search(self, query: str) -> Result:
        """Skills for a query; if none matches, the names of all skills."""
        rows = list(
            self._fit_budget((_skill_row(s) for s in self._find_skills(query)), size=_to_json)
        )
        if rows:
            return Result.of({"query": query, "results": rows})
        names = [{"id": s.id, "name": s.name} for s in self._library.skills.values()]
        read = tool_name("read_skill", self._style)
        return Result.of(
            {
                "query": query,
                "results": [],
                "allSkills": list(self._fit_budget(names, size=_to_json)),
                "message": f"No skill matches. Read one of these with {read}, or continue without.",
            }
        )

    def read(
        self, skill_id: str, file: str | None = None, *, session: CallerSession | None = None
    ) -> Result:
        """The text of a skill or of a file in its folder; an error result if it cannot be read.

        With a session, of the tools that belong to the skill only those are named that its caller
        may use.
        """
        skill = self._library.find(skill_id)
        if skill is None:
            known = ", ".join(self._library.skills) or "none"
            return _error_result(f"There is no skill {skill_id!r}. Available: {known}.")
        if file is not None:
            return self._read_skill_file(skill, file)
        return self._read_manifest(skill, session)

    # Internals

    def _find_skills(self, query: str) -> list[Skill]:
        skills = self._library.skills
        literal = [s for s in skills.values() if s.matches(query)]
        if not query.strip():
            return literal
        results = self._engine.search(query, limit=max(_LIMIT, len(literal)), mode="words")
        # Literal matches come first, ordered by the engine, since they are certain.
        ranks = {name: rank for rank, name in enumerate(results.names)}
        literal.sort(key=lambda s: ranks.get(s.id, len(ranks)))
        if self._matching == "literal":
            return literal
        others = [skills[h.name] for h in results.hits if _is_relevant(h, results)]
        return list(dict.fromkeys((*literal, *others)))

    def _read_manifest(self, skill: Skill, session: CallerSession | None) -> Result:
        # Read again on each call: only the front matter is kept in memory.
        try:
            text = read_text(skill.path, max_bytes=self._max_bytes, follow=False)
            _, body = split_front_matter(text)
        except TextFileError as error:
            return _error_result(f"The skill {skill.id!r} cannot be read: {error}.")
        reply: dict[str, Any] = {"skillId": skill.id, "name": skill.name, "content": body}
        files = [f for f in list_files(skill.folder) if f != MANIFEST] if skill.folder else []
        if files:
            reply["files"] = files
        if tools := self._tools_of(skill, session):
            reply["tools"] = tools
        return Result.of(reply)

    def _tools_of(self, skill: Skill, session: CallerSession | None) -> list[str]:
        names = list(dict.fromkeys((*skill.tools, *self._tools_by_skill.get(skill.id, ()))))
        if session is None:
            return names
        # A skill may also name tools of its client, such as `Bash(git:*)`, which are not filtered.
        allowed = {tool.name for tool in session.tools(*names)}
        return [name for name in names if name in allowed or name not in self._tool_names]

    def _read_skill_file(self, skill: Skill, file: str) -> Result:
        if skill.folder is None:
            return _error_result(f"The skill {skill.id!r} is a single file and has no other files.")
        try:
            path = resolve_inside(skill.folder, file)
            text = read_text(path, max_bytes=self._max_bytes, follow=False)
        except (UnsafePathError, TextFileError) as error:
            files = ", ".join(f for f in list_files(skill.folder) if f != MANIFEST) or "none"
            return _error_result(
                f"{file!r} cannot be read: {error}. Files of {skill.id!r}: {files}."
            )
        return Result.of({"skillId": skill.id, "name": skill.name, "file": file, "content": text})

    def _fit_budget(self, items: Iterable[Any], *, size: Any = str) -> Iterator[Any]:
        """As many items as fit the budget, and at least one."""
        left = self._budget_tokens
        for index, item in enumerate(items):
            left -= self._counter.count(size(item))
            if left < 0 and index:
                return
            yield item


def _is_relevant(hit: Hit, results: Results) -> bool:
    """Whether it matched by keywords, or only semantically in a confident search, near the best."""
    if any(reason.arm != "meaning" for reason in hit.why):
        return True
    return results.confidence >= _MIN_CONFIDENCE and hit.score >= results.hits[0].score / 2


def _skill_row(skill: Skill) -> dict[str, str]:
    return {"id": skill.id, "name": skill.name, "description": skill.description}


def _to_json(item: object) -> str:
    return json.dumps(item, ensure_ascii=False)


def _error_result(message: str) -> Result:
    return replace(Result.of({"error": message}), is_error=True)
