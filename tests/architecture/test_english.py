"""Documentation, messages and test names are in plain English: no words from the list below."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import pytest

PROJECT = Path(__file__).parents[2]

# The files that are checked, as globs from the project folder: the text of pages, the string
# literals, docstrings and comments of modules, the names of tests.
CHECKED = (
    "*.md",  # of the changelog only the unreleased part
    "docs/**/*.md",
    "scripts/[!s]*.py",  # not shape.py, which lists participles
    "scripts/smoke.py",
    "src/toolscout/**/*.py",
    "tests/**/*.py",
)


class Rule(NamedTuple):
    """A word or phrase to avoid, as a pattern over whole words in any case."""

    pattern: str
    better: str
    example: str


RULES = (
    Rule(r"mend(?:s|ed|ing)?", "fix, correct", "Mend that line."),
    Rule(r"slip(?:s|ped)?(?!-)", "typo", "Words with slips are found."),
    Rule(r"misspelt", "misspelled, with a typo", "A misspelt name."),
    Rule(r"told", "reported, sent, said", "It is told once."),
    Rule(r"tells? of", "reports", "The log tells of it."),
    Rule(r"(?:hears?|hearing) of", "gets a notification of", "It goes without hearing of it."),
    Rule(r"whoever", "anyone who, the caller", "Whoever asks gets it."),
    Rule(r"(?:thereby|whereby|wherein|thereof|hitherto|henceforth|whilst|lest|unto|thence|hence)",
         "so, therefore, while, from now on", "It thereby fails."),
    Rule(r"anew", "again", "It is read anew."),
    Rule(r"aside(?! from)", "saved, stored, replaced by a preview", "Results are kept aside."),
    Rule(r"hollow(?:s|ed)?(?:-out)?", "replaced by a stub", "Schemas are hollowed out."),
    Rule(r"by words(?: alone)?", "keyword search", "It searches by words."),
    Rule(r"(?:go(?:es)?|search(?:es)?|find(?:s)?) by meaning", "semantic search",
         "It goes by meaning."),
    Rule(r"what waits", "the deferred tools, the calls held for approval", "It lists what waits."),
    Rule(r"(?:waiting tools?|tools? (?:that |which )?waits?)", "deferred tools, tools are deferred",
         "A waiting tool runs."),
    Rule(r"waits? to be found", "is deferred", "They wait to be found."),
    Rule(r"go(?:es)? straight through", "is shown directly, passes unchanged",
         "A small catalog goes straight through."),
    Rule(r"go(?:es)? on(?! to)", "continues", "Search goes on."),
    Rule(r"the price of", "the cost of", "Two for the price of one."),
    Rule(r"(?<!soon )(?<!long )(?<!much )(?<!far )as (?:it is|they are|it was|they were)"
         r"(?=[.,;:)|]| (?:and|but|in|for|by)\b)", "unchanged, directly",
         "Names are taken as they are."),
    Rule(r"(?<!there )(?:is|are) no(?! longer| more| such| matter)", "is not a, does not",
         "An order is no request."),
    Rule(r"(?<=[.] )(?-i:What) (?:is|was|has|cannot|needs|counts|comes|goes)\b[^.?!|]*\.",
         "name the thing: 'A value that ...'", "Wait. What is quoted stays."),
    Rule(r"what is (?:not )?\w+(?: \w+){0,3} (?:is|are|was|goes|stays|runs|counts|comes)",
         "name the thing: 'A value that ...'", "Then what is not loaded is refused."),
    Rule(r"(?:needs?|wants?|asks? for) (?:a|somebody's) yes", "needs approval", "It needs a yes."),
    Rule(r"gives? way", "is replaced, is deleted", "The oldest gives way."),
    Rule(r"lets? go of", "releases, deletes", "It lets go of a session."),
    Rule(r"at the rim", "in the outer parts", "Waiting happens at the rim."),
    Rule(r"(?:line|row|folder|vector|sentence|file) an? (?:call|category|session|set|skill|tool)",
         "one ... per ...", "It prints one line a skill."),
    Rule(r"an? \w+ of (?:yours|ours)", "your own, our own", "Pass an object of yours."),
    Rule(r"\d+ (?:came|went)(?=[,.])", "added, removed", "tools: 2 came, 0 changed"),
    Rule(r"say who you are", "authentication required", "Say who you are."),
    Rule(r"still being (?:read|loaded)", "still loading", "The encoder is still being read."),
    Rule(r"for ever", "forever", "It waits for ever."),
    Rule(r"words alone", "keyword search only", "It goes by the words alone."),
    Rule(r"look(?:s|ed)? whether", "checks whether", "It looks whether a server works."),
    Rule(r"(?:is|are) taken over", "is imported", "A login is taken over."),
    Rule(r"held back", "held for approval, hidden", "Tools are held back."),
    Rule(r"blots? out", "hides", "It blots out words."),
    Rule(r"beyond measure", "too much, too many", "It grows beyond measure."),
    Rule(r"puts? (?:\w+ ){1,2}back as", "restores", "It puts files back as they were."),
    Rule(r"test what", "name the thing: 'a value that ...'", "test what was written is read"),
    Rule(r"all the same(?=[.,;:)]|$)", "anyway, still", "It is run all the same."),
    Rule(r"can(?:not)? be had", "is (not) available", "They cannot be had: it is down."),
    Rule(r"(?:that|which|it|an? \w+) (?:is|are) none(?= is| are|[.,;:)])", "is invalid, is not one",
         "A pattern that is none is an error."),
    Rule(r"what it finds (?:you|is|are)", "the tools it finds", "What it finds you can call."),
    Rule(r"what there is(?=[.:,;])", "the available ...", "What there is: mail, files."),
    Rule(r"kept (?:result|conversation|session)s?", "stored result", "There is no kept result."),
)  # fmt: skip
ALLOWED = (
    "There is no tool of that name.",
    "The tool is no longer there.",
    "As soon as it is ready, it runs.",
    "The call is held for approval.",
    "Only the outer parts wait.",
    "What is a profile?",
    "Apart, or aside from that, go on to the next page.",
    "The recommended limit applies.",
)


COMPILED = [
    (re.compile(rf"(?<![\w/.-])(?:{rule.pattern})(?!\w)", re.IGNORECASE), rule) for rule in RULES
]


def find_faults(text: str) -> Iterator[tuple[int, str, Rule]]:
    """The line, the words and the rule of everything in a text that breaks a rule."""
    lines = [" ".join(line.split()) + " " for line in text.splitlines()]
    starts = [*accumulate(map(len, lines), initial=0)]
    for pattern, rule in COMPILED:
        for match in pattern.finditer("".join(lines)):
            yield bisect_right(starts, match.start()), match[0], rule


def read_texts(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a file that a person reads, each with the line it starts at."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        if path.name == "CHANGELOG.md":
            source = "\n## ".join(source.split("\n## ")[:2])
        yield 1, re.sub(r"`[^`\n]*`", lambda code: "`" * len(code[0]), source)
        return
    tree = ast.parse(source)
    yield from read_test_names(tree)
    if path.is_relative_to(PROJECT / "tests"):
        return
    yield from read_comments(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def read_test_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The names of tests as text."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name.startswith("test_"):
            yield node.lineno, node.name.replace("_", " ")


def read_comments(source: str) -> Iterator[tuple[int, str]]:
    """The comments of a module; neighbouring lines are one text."""
    for comment in re.finditer(r"(?:^[ \t]*# .*\n)+|(?<=  )# .*$", source, re.MULTILINE):
        text = re.sub(r"^[ \t]*# ", "", comment[0], flags=re.MULTILINE)
        yield source.count("\n", 0, comment.start()) + 1, text


FILES = sorted({path for glob in CHECKED for path in PROJECT.glob(glob)})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PROJECT).as_posix())
def test_a_file_has_no_words_that_readers_stumble_over(path: Path):
    place = path.relative_to(PROJECT).as_posix()
    faults = [
        f"{place}:{start + line - 1}: {words!r}: write {rule.better}"
        for start, text in read_texts(path)
        for line, words, rule in find_faults(text)
    ]
    assert not faults, "\n" + "\n".join(faults)


def test_every_entry_of_the_list_of_files_finds_something():
    assert [glob for glob in CHECKED if not [*PROJECT.glob(glob)]] == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.example)
def test_a_rule_finds_its_own_example(rule: Rule):
    assert rule in [found for _, _, found in find_faults(rule.example)]


@pytest.mark.parametrize("text", ALLOWED)
def test_ordinary_sentences_pass(text: str):
    assert [words for _, words, _ in find_faults(text)] == []


def test_a_phrase_is_found_over_the_end_of_a_line_and_its_line_is_named():
    ((line, words, _),) = find_faults("One line.\nTwo for the\n  price of one.")
    assert (line, words) == (2, "the price of")


def test_string_literals_docstrings_comments_and_test_names_are_read(tmp_path: Path):
    path = tmp_path / "module.py"
    path.write_text(
        '"""Mend it."""\n\n# Told\n# twice.\n'
        'def test_x_is_mended():\n    print(f"{1} told us", "told")  # Slip.\n'
    )
    assert sorted(read_texts(path)) == [
        (1, "Mend it."),
        (3, "Told\ntwice.\n"),
        (5, "test x is mended"),
        (6, " told us"),
        (6, "Slip."),
    ]
