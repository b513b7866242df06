"""What every test relies on."""

import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine is no failure: properties are judged by what they find, never by how long it took.
settings.register_profile("toolscout", deadline=None)
settings.load_profile("toolscout")

# A shell starts jobs in the background with Ctrl-C ignored, and every child would inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ
if not IS_WORKER:  # workers inherit it
    _home = Path(tempfile.mkdtemp(prefix="toolscout-tests-"))
    for _name in [name for name in os.environ if name.startswith(("TOOLSCOUT_", "XDG_"))]:
        del os.environ[_name]
    os.environ["HOME"] = str(_home)
    os.environ["TOOLSCOUT_HOME"] = str(_home / "toolscout")
    # All tests share this home, and one must not change what another finds.
    os.environ["TOOLSCOUT_LEARNING"] = "off"
HOME = Path(os.environ["HOME"])


def pytest_unconfigure(config: pytest.Config) -> None:
    """Whatever tests wrote to a home, they wrote to this one, and it goes with them."""
    if not IS_WORKER:
        shutil.rmtree(HOME, ignore_errors=True)
