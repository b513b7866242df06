"""`toolscout completion`: prints the completion script of a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from .output import print_text

SHELLS = ("bash", "zsh", "fish")


@click.command(name="completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the completion script of a SHELL.

    \b
    bash:  eval "$(toolscout completion bash)"        in ~/.bashrc
    zsh:   eval "$(toolscout completion zsh)"         in ~/.zshrc
    fish:  toolscout completion fish | source         in config.fish
    """
    root = click.get_current_context().find_root()
    completion_class = get_completion_class(shell)
    assert completion_class is not None
    print_text(completion_class(root.command, {}, "toolscout", "_TOOLSCOUT_COMPLETE").source())
