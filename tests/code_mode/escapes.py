"""Attempts of a program to reach more than its tools, for the tests and for docs/code-mode.md.

Each program ends with a value that begins with ESCAPED if it got what it wanted.
"""

# ruff: noqa: E501 - each program on one line

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Escape:
    kind: str
    title: str
    code: str


def _imports() -> list[Escape]:
    modules = (
        *("subprocess", "socket", "ctypes", "shutil", "importlib", "inspect", "gc", "builtins"),
        *("multiprocessing", "threading", "pickle", "urllib.request", "http.client", "tempfile"),
        *("signal", "resource", "pty", "toolscout", "pydantic_monty", "psycopg"),
    )
    return [Escape("imports", f"import {name}", f"import {name}\n'ESCAPED'") for name in modules]


ESCAPES: tuple[Escape, ...] = (
    *_imports(),
    Escape("imports", "__import__", "__import__('os').system('id')\n'ESCAPED'"),
    Escape("imports", "a relative import", "from . import secret\n'ESCAPED'"),
    Escape("imports", "sys.modules", "import sys\nsys.modules['os']\n'ESCAPED'"),
    Escape(
        "dunder walks",
        "classes of a tuple",
        "().__class__.__bases__[0].__subclasses__()\n'ESCAPED'",
    ),
    Escape("dunder walks", "globals of a function", "def f(): pass\nf.__globals__\n'ESCAPED'"),
    Escape("dunder walks", "code of a function", "def f(): pass\nf.__code__\n'ESCAPED'"),
    Escape("dunder walks", "the closure of call_tool", "call_tool.__closure__\n'ESCAPED'"),
    Escape("dunder walks", "the module of call_tool", "call_tool.__self__\n'ESCAPED'"),
    Escape("dunder walks", "getattr with a built name", "getattr((), '__cl' + 'ass__')\n'ESCAPED'"),
    Escape(
        "dunder walks",
        "the frame of an exception",
        "try:\n    1/0\nexcept Exception as e:\n    e.__traceback__.tb_frame.f_globals\n'ESCAPED'",
    ),
    Escape(
        "dunder walks",
        "format strings",
        "'ESCAPED' if 'object' in '{0.__class__.__base__}'.format(1) else 'held'",
    ),
    Escape(
        "dunder walks", "the builtins of a frame", "__builtins__['open']('/etc/passwd')\n'ESCAPED'"
    ),
    Escape(
        "dunder walks",
        "type with three arguments",
        "type('X', (object,), {'__init__': print})\n'ESCAPED'",
    ),
    Escape("eval", "eval of an import", "eval(\"__import__('os').getpid()\")\n'ESCAPED'"),
    Escape("eval", "exec of an import", "exec('import subprocess')\n'ESCAPED'"),
    Escape("eval", "eval of an unchecked call", "eval(\"open('/etc/passwd').read()\")\n'ESCAPED'"),
    Escape("eval", "compile", "compile('1', 'x', 'eval')\n'ESCAPED'"),
    Escape("eval", "globals", "globals()['__builtins__']\n'ESCAPED'"),
    Escape("files", "open a file", "open('/etc/passwd').read()\n'ESCAPED'"),
    Escape("files", "open for writing", "open('/tmp/toolscout-escape', 'w')\n'ESCAPED'"),
    Escape(
        "files",
        "a path of the system",
        "from pathlib import Path\nPath('/etc/hostname').read_text()\n'ESCAPED'",
    ),
    Escape(
        "files",
        "write with pathlib",
        "from pathlib import Path\nPath('/tmp/toolscout-escape').write_text('x')\n'ESCAPED'",
    ),
    Escape("files", "list a folder", "import os\nos.listdir('/')\n'ESCAPED'"),
    Escape(
        "files", "walk a folder", "from pathlib import Path\nlist(Path('/').iterdir())\n'ESCAPED'"
    ),
    Escape(
        "files",
        "the memory of the process",
        "from pathlib import Path\nPath('/proc/self/mem').read_bytes()\n'ESCAPED'",
    ),
    Escape("files", "a file by its descriptor", "open(0).read()\n'ESCAPED'"),
    Escape("files", "delete a file", "import os\nos.remove('/tmp/toolscout-escape')\n'ESCAPED'"),
    Escape(
        "network",
        "an HTTP request",
        "import urllib\nurllib.request.urlopen('http://127.0.0.1')\n'ESCAPED'",
    ),
    Escape(
        "network",
        "a connection of asyncio",
        "import asyncio\nawait asyncio.open_connection('127.0.0.1', 80)\n'ESCAPED'",
    ),
    Escape("processes", "os.system", "import os\nos.system('id')\n'ESCAPED'"),
    Escape("processes", "os.popen", "import os\nos.popen('id').read()\n'ESCAPED'"),
    Escape("processes", "os.fork", "import os\nos.fork()\n'ESCAPED'"),
    Escape(
        "processes",
        "a subprocess of asyncio",
        "import asyncio\nawait asyncio.create_subprocess_shell('id')\n'ESCAPED'",
    ),
    Escape("processes", "os.kill", "import os\nos.kill(1, 9)\n'ESCAPED'"),
    Escape("environment", "os.environ", "import os\ndict(os.environ)\n'ESCAPED'"),
    Escape("environment", "os.getenv", "import os\n'ESCAPED' if os.getenv('PATH') else 'held'"),
    Escape(
        "environment",
        "the arguments of the process",
        "import sys\n'ESCAPED' if len(sys.argv) > 1 else 'held'",
    ),
    Escape("environment", "the user", "import os\nos.getuid()\n'ESCAPED'"),
    Escape("bombs", "a long text", "'x' * 10**10\n'ESCAPED'"),
    Escape("bombs", "a list that doubles", "x = [0]\nwhile True:\n    x = x + x"),
    Escape(
        "bombs",
        "a dictionary that grows",
        "x = {}\ni = 0\nwhile True:\n    x[i] = str(i) * 100\n    i += 1",
    ),
    Escape("bombs", "a huge number", "10 ** 10 ** 10\n'ESCAPED'"),
    Escape("bombs", "endless recursion", "def f(n):\n    return f(n + 1)\nf(0)\n'ESCAPED'"),
    Escape(
        "bombs",
        "a result that is nested too deeply",
        "x = []\nfor _ in range(200_000):\n    x = [x]\nx",
    ),
    Escape("bombs", "deeply nested code", "(" * 5_000 + "1" + ")" * 5_000),
    Escape(
        "bombs",
        "a regular expression that explodes",
        "import re\nre.match('(a+)+$', 'a' * 60 + 'b')\n'ESCAPED' * 0 + 'held'",
    ),
    Escape("endless loops", "while True", "while True:\n    pass"),
    Escape(
        "endless loops",
        "a loop that catches everything",
        "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass",
    ),
    Escape("endless loops", "a sleep without an end", "import time\ntime.sleep(10**9)\n'ESCAPED'"),
    Escape(
        "endless loops",
        "many short sleeps",
        "import asyncio\nwhile True:\n    await asyncio.sleep(0.4)",
    ),
    Escape("endless loops", "a comprehension", "[i for i in range(10**12)]\n'ESCAPED'"),
    Escape("huge outputs", "print without an end", "while True:\n    print('x' * 1000)"),
    Escape("huge outputs", "one huge print", "print('x' * 30_000_000)\n'ESCAPED'"),
    Escape(
        "host callbacks",
        "a function that the host does not have",
        "await run_shell('id')\n'ESCAPED'",
    ),
    Escape("host callbacks", "call_tool without arguments", "await call_tool()\n'ESCAPED'"),
    Escape("host callbacks", "call_tool with a number", "await call_tool(1, 2)\n'ESCAPED'"),
    Escape(
        "host callbacks",
        "arguments that contain themselves",
        "x = {}\nx['x'] = x\nawait call_tool('echo', x)\n'ESCAPED'",
    ),
    Escape(
        "host callbacks",
        "arguments nested too deeply",
        "x = 'a'\nfor _ in range(5_000):\n    x = [x]\nawait call_tool('echo', {'text': x})\n'ESCAPED'",
    ),
    Escape(
        "host callbacks",
        "a program in a program",
        "await call_tool('run_code', {'code': \"'x'\"})\n'ESCAPED'",
    ),
    Escape(
        "host callbacks",
        "a program through the dispatcher",
        "await call_tool('call_tool', {'name': 'run_code', 'arguments': {'code': \"'x'\"}})\n'ESCAPED'",
    ),
    Escape(
        "host callbacks",
        "a tool that the caller may not use",
        "await call_tool('forbidden', {})\n'ESCAPED'",
    ),
    Escape(
        "host callbacks", "the forbidden tool as an attribute", "await tools.forbidden()\n'ESCAPED'"
    ),
    Escape("host callbacks", "the forbidden tool by describe", "describe('forbidden')\n'ESCAPED'"),
    Escape(
        "host callbacks",
        "the forbidden tool by search",
        "'ESCAPED' if any(t['name'] == 'forbidden' for t in search('forbidden secret tool', 20)) else 'held'",
    ),
    Escape(
        "host callbacks",
        "call_tool replaced",
        "async def call_tool(name, arguments):\n    return 'mine'\n'ESCAPED' if await tools.forbidden() else 'held'",
    ),
    Escape(
        "host callbacks",
        "more calls than allowed",
        "for i in range(10_000):\n    await tools.echo(text='x')\n'ESCAPED'",
    ),
    Escape(
        "host callbacks",
        "the namespace changed",
        "tools.echo = lambda text: 'ESCAPED'\nawait tools.echo(text='forbidden')",
    ),
    Escape(
        "instructions in results",
        "a result that asks for a call",
        "x = await tools.poisoned()\nx if x.startswith('ESCAPED') else 'held'",
    ),
    Escape(
        "instructions in results",
        "a result that is code",
        "exec(await tools.poisoned_code())\n'ESCAPED'",
    ),
)
