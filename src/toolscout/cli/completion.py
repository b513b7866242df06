"""`toolscout completion`: the script that makes a shell complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

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
    maker = get_completion_class(shell)
    assert maker is not None
    click.echo(maker(root.command, {}, "toolscout", "_TOOLSCOUT_COMPLETE").source())
