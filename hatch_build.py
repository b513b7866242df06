"""Build hooks: compile the inner loops of search, and make the links of the README absolute.

Without a C compiler the wheel is pure Python and works the same, only slower: the loops also exist
in NumPy. Environment variables choose what is built:

- `TOOLSCOUT_PLAIN=1` builds the pure-Python wheel.
- `CC` names the compiler, for example `CC="python -m ziglang cc -target aarch64-linux-gnu.2.17"`.
- `TOOLSCOUT_PLATFORM` is the wheel's platform tag, if the compiler builds for another platform.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from zlib import crc32

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

FOLDER = Path("src/toolscout/search/kernel")
FLAGS = ("-O3", "-std=c99", "-shared", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-s")
NAMES = ("loops.so", "loops.dll")

# `[text](target)`, `![text](target)`, `[label]: target`, `<a href="target">`, `<img src="target">`
LINK = re.compile(
    r"""(?P<before>\]\(<?|^\[[^\]\n]+\]:[ \t]+|<\w+[^>]*?\s(?:href|src|srcset)=["'])"""
    r"""(?P<target>[^\s)>"']+)""",
    re.MULTILINE,
)
IMAGES = (".svg", ".png", ".gif", ".jpg", ".webp")


class CompiledLoops(BuildHookInterface[Any]):
    """Adds the compiled library to the wheel, which then has a platform tag."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - as hatchling calls it
        """Compile before files are packed; an editable install finds the library in the tree."""
        platform = os.environ.get("TOOLSCOUT_PLATFORM") or _this_platform()
        folder = Path(self.root) / FOLDER
        for name in NAMES:  # a library of another platform must not be packed
            (folder / name).unlink(missing_ok=True)
        library = folder / NAMES[platform.startswith("win")]
        if not self._compile(library):
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        build_data["artifacts"].append(f"{FOLDER.as_posix()}/{library.name}")

    def _compile(self, library: Path) -> bool:
        command = shlex.split(os.environ.get("CC", "")) or _find_compiler()
        if not command or os.environ.get("TOOLSCOUT_PLAIN"):
            self.app.display_warning("Not compiled: keyword search will be slower.")
            return False
        source = library.with_name("loops.c")
        edition = f"-DEDITION={crc32(source.read_bytes())}u"
        try:
            done = subprocess.run(  # noqa: S603 - the compiler that the user chose
                [*command, *FLAGS, edition, "-o", library, source, "-lm"],
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError as error:
            return self._fail(f"{command[0]} could not be run: {error}")
        # The Windows linker also writes an import library and debug information beside the DLL.
        for extra in (".lib", ".pdb"):
            library.with_suffix(extra).unlink(missing_ok=True)
        if done.returncode:
            return self._fail(f"{command[0]} could not compile {source}:\n{done.stderr}")
        return True

    def _fail(self, message: str) -> bool:
        """A build for a named platform must not become a pure-Python wheel unnoticed."""
        if os.environ.get("TOOLSCOUT_PLATFORM"):
            raise RuntimeError(message)
        self.app.display_warning(message)
        return False


class AbsoluteReadme(MetadataHookInterface):
    """Gives the README to package indexes, which have no files that relative links could name."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme, with links to the repository at the tag of this version."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = metadata["urls"]["Repository"]
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute_links(text, repository, f"v{metadata['version']}"),
        }


def absolute_links(text: str, repository: str, ref: str) -> str:
    """Markdown with relative links made absolute; code blocks stay as they are."""
    pages = f"{repository}/blob/{ref}/"
    files = f"{repository.replace('//github.com/', '//raw.githubusercontent.com/')}/{ref}/"

    def replace(match: re.Match[str]) -> str:
        target = match["target"]
        url = urlsplit(target)
        if url.scheme or url.netloc or not url.path:
            return match[0]
        base = files if url.path.lower().endswith(IMAGES) else pages
        return f"{match['before']}{base}{target.removeprefix('./')}"

    # Odd parts are fenced blocks.
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    parts[::2] = [LINK.sub(replace, part) for part in parts[::2]]
    return "".join(parts)


def _this_platform() -> str:
    """The platform tag of this machine."""
    return re.sub(r"[-.]", "_", sysconfig.get_platform())


def _find_compiler() -> list[str]:
    """The first compiler on the path."""
    return next(([path] for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), [])
