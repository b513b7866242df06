"""Break the code on purpose, one place at a time, and check that a marked test fails.

    python scripts/mutations.py [--json] [--jobs N] [--limit SECONDS] [--skip-baseline] [WHAT ...]

Mutations are in `tests/behaviours/mutations/*.toml`. Each names the row of the behaviour table
that it breaks; it is caught if a test marked with that row fails. WHAT chooses designs (`solaris`,
`A`) or rows (`C2`). Exits with 1 if too few are caught, with 2 if a mutation cannot be applied or
a test fails without one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[1]
sys.path.insert(0, str(PROJECT))

from tests.behaviours.table import read  # noqa: E402  (the tests are not installed)

MUTATIONS = PROJECT / "tests" / "behaviours" / "mutations"
MUST_CATCH = 57
MUST_CATCH_SHARE = 0.95
LIMIT_SECONDS = 240.0
BASELINE_SECONDS = 3600.0
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


class MutationError(Exception):
    """A mutation that cannot be applied, or tests that say nothing about it."""


@dataclass(frozen=True)
class Mutation:
    """One change of the source, and the row that it breaks."""

    design: str
    row: str
    file: str
    old: str
    new: str
    breaks: str

    def apply(self, root: Path) -> None:
        """Write the change into a copy of the project."""
        path = root / self.file
        if not path.is_file():
            raise MutationError(f"{self.design}, {self.row}: there is no file {self.file}")
        text = path.read_text(encoding="utf-8")
        if (times := text.count(self.old)) != 1:
            raise MutationError(
                f"{self.design}, {self.row}: the old text occurs {times} times in {self.file},"
                f" not once: {self.old!r}"
            )
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


@dataclass(frozen=True)
class Outcome:
    """The result of the tests of a row for a mutation: the test that failed, or why none did."""

    mutation: Mutation
    caught_by: str | None
    reason: str = ""


def read_mutations(folder: Path, wanted: Sequence[str] = ()) -> list[Mutation]:
    """The mutations of a folder: all, or those of some designs or rows."""
    found: list[Mutation] = []
    for path in sorted(folder.glob("*.toml")):
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        found += [Mutation(path.stem, **entry) for entry in document.get("mutation", [])]
    return [m for m in found if not wanted or {m.design, m.row, m.row[0]} & {*wanted}]


def environment_of(copy: Path) -> dict[str, str]:
    """An environment in which this process and its children import the copy."""
    rest = os.environ.get("PYTHONPATH")
    path = [str(copy / "src"), *([rest] if rest else [])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1"}


def run_tests(
    tests: Sequence[str], *, root: Path, copy: Path, limit: float, options: Sequence[str] = ()
) -> tuple[int | None, str]:
    """Run tests of a project against a copy of its source: exit code (None: too slow), output."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, *tests]
    process = subprocess.Popen(
        command,
        cwd=root,
        env=environment_of(copy),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # so that the servers that tests start end with them
    )
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None, ""
    return process.returncode, output


def copy_source(root: Path, into: Path) -> Path:
    """A copy of the source tree that a mutation may change."""
    shutil.copytree(
        root / "src", into / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    return into


def try_mutation(mutation: Mutation, tests: Sequence[str], *, root: Path, limit: float) -> Outcome:
    """Apply a mutation to a copy and run the tests of its row, up to the first that fails."""
    if not tests:
        return Outcome(mutation, None, "no test is marked with the row")
    with tempfile.TemporaryDirectory(prefix="toolscout-mutation-") as folder:
        copy = copy_source(root, Path(folder))
        mutation.apply(copy)
        code, output = run_tests(tests, root=root, copy=copy, limit=limit, options=["-x"])
    match code:
        case None:
            return Outcome(mutation, None, f"took longer than {limit:g} seconds")
        case 0:
            return Outcome(mutation, None, f"{len(tests)} tests pass")
        case 1 if failed := FAILED.search(output):
            return Outcome(mutation, failed[1])
        case _:
            raise MutationError(
                f"{mutation.design}, {mutation.row}: pytest exited with {code}, which says nothing"
                f" about the behaviour ({mutation.breaks})\n{output[-2_000:]}"
            )


def check_applicable(mutations: Sequence[Mutation], root: Path) -> list[str]:
    """The reasons why mutations cannot be applied, found before any test runs."""
    complaints: list[str] = []
    for mutation in mutations:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / mutation.file
            copy.parent.mkdir(parents=True)
            if (root / mutation.file).is_file():
                shutil.copy(root / mutation.file, copy)
            try:
                mutation.apply(Path(folder))
            except MutationError as error:
                complaints.append(str(error))
    return complaints


def check_baseline(tests: Sequence[str], root: Path) -> list[str]:
    """The tests that fail without any mutation, which therefore prove nothing."""
    code, output = run_tests(tests, root=root, copy=root, limit=BASELINE_SECONDS)
    if code == 0:
        return []
    failed = FAILED.findall(output) or [f"pytest exited with {code}: {output[-2_000:]}"]
    return [f"fails without a mutation: {test}" for test in failed]


def try_all(
    mutations: Sequence[Mutation],
    proofs: Mapping[str, Sequence[str]],
    *,
    root: Path,
    limit: float,
    jobs: int,
) -> Iterator[Outcome]:
    """Every mutation by itself, in the order of the files."""
    with ThreadPoolExecutor(jobs) as pool:
        running = [
            pool.submit(try_mutation, m, proofs.get(m.row, ()), root=root, limit=limit)
            for m in mutations
        ]
        try:
            for job in running:
                yield job.result()
        finally:
            for job in running:
                job.cancel()


def line(outcome: Outcome) -> str:
    """One line of the table."""
    mutation = outcome.mutation
    caught = outcome.caught_by or f"NOT CAUGHT ({outcome.reason})"
    return f"{mutation.row:5} {mutation.breaks}\n      {mutation.design}: {caught}"


def summary(outcomes: Sequence[Outcome]) -> str:
    """How many were caught."""
    caught = sum(o.caught_by is not None for o in outcomes)
    share = caught / len(outcomes) if outcomes else 0.0
    return f"{caught} of {len(outcomes)} mutations caught ({share:.0%})"


def is_enough(outcomes: Sequence[Outcome], must_catch: int) -> bool:
    """Whether enough were caught, in number and in share."""
    caught = sum(o.caught_by is not None for o in outcomes)
    return caught >= max(must_catch, MUST_CATCH_SHARE * len(outcomes))


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="make mutations")
    parser.add_argument("wanted", nargs="*", help="designs or rows; all without any")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=LIMIT_SECONDS, help="seconds per mutation")
    parser.add_argument("--skip-baseline", action="store_true", help="do not run the tests first")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str], *, root: Path = PROJECT, folder: Path = MUTATIONS) -> int:
    """Try the mutations and print the table."""
    options = parse_arguments(arguments)
    mutations = read_mutations(folder, options.wanted)
    proofs = read(root / "tests", root / "tests" / "behaviours").proofs
    tests = [*dict.fromkeys(t for m in mutations for t in proofs.get(m.row, ()))]
    complaints = check_applicable(mutations, root)
    if not complaints and tests and not options.skip_baseline:
        complaints = check_baseline(tests, root)
    if complaints:
        print(*complaints, sep="\n", file=sys.stderr)
        return 2
    outcomes: list[Outcome] = []
    try:
        for outcome in try_all(
            mutations, proofs, root=root, limit=options.limit, jobs=options.jobs
        ):
            outcomes.append(outcome)
            if not options.json:
                print(line(outcome), flush=True)
    except MutationError as error:
        print(error, file=sys.stderr)
        return 2
    print(_as_json(outcomes) if options.json else f"\n{summary(outcomes)}")
    # A part of the mutations cannot reach the number that all must reach.
    return 0 if is_enough(outcomes, 0 if options.wanted else MUST_CATCH) else 1


def _as_json(outcomes: Sequence[Outcome]) -> str:
    caught = sum(o.caught_by is not None for o in outcomes)
    return json.dumps(
        {"written": len(outcomes), "caught": caught, "mutations": [asdict(o) for o in outcomes]},
        indent=2,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
