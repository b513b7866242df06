"""Entry point of `python -m toolscout`, the same as `toolscout`."""

from .cli.app import main

if __name__ == "__main__":
    main()
