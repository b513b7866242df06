"""Entry point of `python -m toolscout.cli`, the same as `toolscout`."""

from .app import main

if __name__ == "__main__":
    main()
