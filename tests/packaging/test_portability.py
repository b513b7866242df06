"""The package imports on Linux, macOS and Windows: calls of one system alone are guarded."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "toolscout"
# Modules that Windows does not have (or, the last three, that others do not).
POSIX_MODULES = {
    "crypt", "curses", "fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog",
    "termios", "tty", "msvcrt", "winreg", "winsound",
}  # fmt: skip
# Functions of `os` and `signal` that Windows lacks, and `os.kill`, which there ends a process.
POSIX_CALLS = {
    "os.chown", "os.fchmod", "os.fork", "os.forkpty", "os.getegid", "os.geteuid", "os.getgid",
    "os.getpgid", "os.getuid", "os.kill", "os.killpg", "os.mkfifo", "os.nice", "os.setsid",
    "os.sched_getaffinity", "os.sysconf", "os.uname", "os.wait", "signal.SIGALRM", "signal.SIGHUP",
    "signal.SIGKILL", "signal.SIGUSR1", "signal.SIGUSR2", "signal.alarm", "signal.setitimer",
    "socket.AF_UNIX", "os.O_NOFOLLOW", "os.O_NONBLOCK", "os.O_DIRECTORY", "os.O_CLOEXEC",
    "time.tzset",
}  # fmt: skip
LOOP_CALLS = {"add_signal_handler", "remove_signal_handler"}
GUARDS = {"ImportError", "NotImplementedError", "AttributeError"}


def faults(tree: ast.Module) -> Iterator[str]:
    """Every use of one system alone that stands outside a guard, with its line."""
    yield from _walk(tree, is_guarded=False)


def _walk(node: ast.AST, *, is_guarded: bool) -> Iterator[str]:
    text = _portability_fault(node)
    if text and not is_guarded:
        yield f"{getattr(node, 'lineno', 0)}: {text}"
    # After `if sys.platform == "win32": return ...` the rest of a function is for other systems.
    has_left = False
    for child in ast.iter_child_nodes(node):
        yield from _walk(child, is_guarded=is_guarded or has_left or _is_guard(child))
        has_left = has_left or _leaves_early(child)


def _portability_fault(node: ast.AST) -> str:
    match node:
        case ast.Import():
            return " ".join(a.name for a in node.names if a.name in POSIX_MODULES)
        case ast.ImportFrom() if node.level == 0 and node.module in POSIX_MODULES:
            return str(node.module)
        case ast.Attribute(value=ast.Name(id=owner)) if f"{owner}.{node.attr}" in POSIX_CALLS:
            return f"{owner}.{node.attr}"
        case ast.Call(func=ast.Attribute(attr=name)) if name in LOOP_CALLS:
            return name
        case ast.Constant(value=str(path)) if path.startswith("/tmp/"):
            return path
        case _:
            return ""


def _is_guard(node: ast.AST) -> bool:
    match node:
        case ast.Try():
            return any(_names(h.type) & GUARDS for h in node.handlers if h.type)
        case ast.With():
            return any(_names(item.context_expr) & GUARDS for item in node.items)
        case ast.If():
            return bool(_names(node.test) & {"platform", "name"}) and "sys" in ast.dump(node.test)
        case _:
            return False


def _leaves_early(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and _is_guard(node) and isinstance(node.body[-1], ast.Return)


def _names(node: ast.AST) -> set[str]:
    found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return found | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}


# Where a call is guarded by its caller, and how.
ALLOWED = {
    # `remove_handlers` and `stop`, called only where handlers could be added.
    "gateway/client/stdio.py": {"remove_signal_handler"},
}


def test_calls_of_one_system_alone_are_guarded():
    found: list[str] = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        allowed = ALLOWED.get(name, set())
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found += [f"{name}:{f}" for f in faults(tree) if f.partition(": ")[2] not in allowed]
    assert found == []


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("import fcntl", 1),
        ("from resource import getrusage", 1),
        ("try:\n import resource\nexcept ImportError:\n pass", 0),
        ("with suppress(ImportError):\n import resource", 0),
        ("import os\nos.kill(1, 0)", 1),
        ("def f():\n if sys.platform == 'win32':\n  return 1\n os.kill(1, 0)", 0),
        ("loop.add_signal_handler(2, stop)", 1),
        ("with suppress(NotImplementedError):\n loop.add_signal_handler(2, stop)", 0),
        ("path = '/tmp/x'", 1),
        ("getattr(os, 'O_NOFOLLOW', 0)", 0),
    ],
)
def test_the_check_finds_what_only_one_system_has(code: str, count: int):
    assert len([*faults(ast.parse(code))]) == count


def test_text_files_are_opened_with_a_named_encoding():
    """Windows would read and write them in the code page of its user."""
    found: list[str] = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(attr="read_text" | "write_text")):
                    names = {keyword.arg for keyword in node.keywords}
                    # With several arguments it is a method of our own that has this name.
                    if "encoding" not in names and len(node.args) < 2:
                        found.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
                case _:
                    pass
    assert found == []
