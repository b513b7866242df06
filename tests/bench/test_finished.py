from pathlib import Path

from bench.finished import FinishedParts


def parts(root: Path, *, is_quick: bool = False) -> FinishedParts:
    return FinishedParts.of_this_code(is_quick=is_quick, root=root, folder=root / "kept")


def test_an_interrupted_run_keeps_the_parts_that_were_measured(tmp_path: Path):
    written = parts(tmp_path).write("speed", {"rows": [(1, 2.5)]}, seconds=3.0)
    assert parts(tmp_path).read("speed") == written == ({"rows": [[1, 2.5]]}, 3.0)
    assert parts(tmp_path).read("tokens") is None


def test_parts_of_other_code_or_of_a_quick_run_are_measured_again(tmp_path: Path):
    parts(tmp_path).write("speed", [1], seconds=3.0)
    assert parts(tmp_path, is_quick=True).read("speed") is None
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "engine.py").write_text("changed = True\n")
    assert parts(tmp_path).read("speed") is None


def test_a_torn_file_is_measured_again(tmp_path: Path):
    finished = parts(tmp_path)
    finished.write("speed", [1], seconds=3.0)
    (finished.folder / "speed.json").write_text("[[1], 3")
    assert finished.read("speed") is None
