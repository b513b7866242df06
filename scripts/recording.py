"""Record a real terminal run as an SVG for the README: `python scripts/recording.py`.

Each command runs in a pseudo-terminal; what it prints is drawn as it came. The SVG names only fonts
that are installed, so it renders without internet. A test runs the commands again and compares.
"""

from __future__ import annotations

import io
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path
from threading import Thread
from xml.etree import ElementTree as ET

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

TARGET = Path(__file__).parents[1] / "docs" / "figures" / "terminal.svg"
COMMANDS = (
    'toolscout search -k 3 "will I need an umbrella tomorrow?"',
    'toolscout search -k 2 "wann haben alle Zeit für ein Treffen?"',
    'toolscout search "xkqz vbnwt"',
    "toolscout demo",
)
COLUMNS = 112
_NUMBER = re.compile(r"\d[\d.,]*")
# Rich's own page, without the fonts that it loads from the internet.
PAGE = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" role="img" \
xmlns="http://www.w3.org/2000/svg">
<title>Toolscout in a terminal</title>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, \
"DejaVu Sans Mono", monospace; font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ display: none; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" \
clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def run_in_terminal(command: str) -> str:
    """What a command prints to a terminal; progress goes to stderr and is left out."""
    program, *arguments = shlex.split(command)
    path = Path(sys.executable).with_name(program)
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": "50"}
    # As after an installation: commands that are printed then need no folder.
    environment["PATH"] = f"{path.parent}{os.pathsep}{os.environ['PATH']}"
    main, side = pty.openpty()
    parts: list[bytes] = []
    reader = Thread(target=_read, args=(main, parts))
    reader.start()
    try:
        # Exit code 1 says that a search was not answered, which is a result too.
        done = subprocess.run(
            [path, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=side,
            stderr=subprocess.PIPE,
            env=environment,
            check=False,
        )
    finally:
        os.close(side)
        reader.join()
        os.close(main)
    if done.returncode not in (0, 1):
        sys.exit(f"{command} failed:\n{done.stderr.decode()}")
    return b"".join(parts).decode().replace("\r\n", "\n")


def _read(terminal: int, parts: list[bytes]) -> None:
    while True:
        try:
            part = os.read(terminal, 65_536)
        except OSError:  # how Linux reports that the other side is closed
            return
        if not part:
            return
        parts.append(part)


def draw() -> str:
    """Run the commands and draw their output."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    for number, command in enumerate(COMMANDS):
        console.print(Text(f"{chr(10) if number else ''}$ {command}", style="bold"))
        console.print(Text.from_ansi(run_in_terminal(command).rstrip("\n")))
    return console.export_svg(
        title="", theme=MONOKAI, code_format=PAGE, unique_id="terminal", font_aspect_ratio=0.61
    )


def outline(svg: str) -> list[str]:
    """The words of a recording, without numbers, since times and scores vary."""
    root = ET.fromstring(svg)
    texts = [e.text or "" for e in root.iter("{http://www.w3.org/2000/svg}text")]
    return _NUMBER.sub("0", " ".join(texts).replace("\xa0", " ")).split()


if __name__ == "__main__":
    TARGET.write_text(draw(), encoding="utf-8")
    print(f"Wrote {TARGET.relative_to(Path.cwd())}")
