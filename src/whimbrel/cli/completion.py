"""`whimbrel completion`: the script with which a shell completes commands and options."""

from typing import Literal


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Write the script with which a shell completes this command, its subcommands and options.

    bash: source <(whimbrel completion bash). zsh: whimbrel completion zsh > DIRECTORY_OF_FPATH/_whimbrel. fish:
    whimbrel completion fish > ~/.config/fish/completions/whimbrel.fish. packaging/install.sh installs all three.

    Parameters
    ----------
    shell
        For which shell.
    """
    from whimbrel.cli import app

    print(app.generate_completion(prog_name="whimbrel", shell=shell))
