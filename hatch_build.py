"""Compiles the inner loops of search while a wheel is built, if there is a compiler.

Without one the wheel is as good and slower: the same loops are there in NumPy. `CC` names another
compiler, for example `CC="python -m ziglang cc"`; `TOOLSCOUT_PLAIN=1` leaves compiling out.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any
from zlib import crc32

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("src/toolscout/search/kernel")
FLAGS = ("-O3", "-std=c99", "-shared", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off")


class CompiledLoops(BuildHookInterface[Any]):
    """Adds the library to the wheel, which then is one for this kind of machine."""

    def initialize(self, _: str, build_data: dict[str, Any]) -> None:
        """Compile before anything is packed; an editable install finds the library in its place."""
        name = "loops.dll" if sys.platform == "win32" else "loops.so"
        library = Path(self.root) / FOLDER / name
        library.unlink(missing_ok=True)
        if not self._compiles(library):
            return
        build_data["pure_python"] = False
        build_data["tag"] = (
            f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
        )
        build_data["artifacts"].append(f"{FOLDER.as_posix()}/{name}")

    def _compiles(self, library: Path) -> bool:
        command = shlex.split(os.environ.get("CC", "")) or _found()
        if not command or os.environ.get("TOOLSCOUT_PLAIN"):
            self.app.display_warning("No C compiler: searches by words will be slower.")
            return False
        source = library.with_name("loops.c")
        edition = f"-DEDITION={crc32(source.read_bytes())}u"
        try:
            made = subprocess.run(  # noqa: S603 - the compiler of whoever installs
                [*command, *FLAGS, edition, "-o", library, source, "-lm"],
                capture_output=True,
                text=True,
            )
        except OSError as error:
            self.app.display_warning(f"{command[0]} could not be run: {error}")
            return False
        if made.returncode:
            self.app.display_warning(f"{command[0]} could not compile {source}:\n{made.stderr}")
        return made.returncode == 0


def _found() -> list[str]:
    """The first compiler at hand."""
    return next(([path] for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), [])
