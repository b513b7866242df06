"""Settings: where they come from, which wins, and what is said of a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from toolscout import Toolbox
from toolscout.config import Config, settings_table
from toolscout.errors import ConfigError
from toolscout.store.factory import open_store
from toolscout.store.memory import MemoryStore
from toolscout.store.sqlite import SqliteStore


@pytest.fixture(autouse=True)
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user with an empty home."""
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text('[settings]\nprofile = "cms"\nmax_loaded = 7\nstore = "memory"\n')
    return path


def test_with_nothing_set_the_defaults_hold():
    assert Config.read(environment={}) == Config()


def test_arguments_beat_the_environment_which_beats_the_file(file: Path):
    environment = {"TOOLSCOUT_PROFILE": "cortex", "TOOLSCOUT_MAX_LOADED": "8"}
    config = Config.read(file, environment=environment, profile="solaris", counter=None)
    assert config.profile == "solaris"
    assert config.max_loaded == 8
    assert config.store == "memory"
    assert config.counter == "auto"


def test_the_file_may_be_named_by_the_environment(file: Path):
    assert Config.read(environment={"TOOLSCOUT_CONFIG": str(file)}).profile == "cms"


def test_the_usual_file_is_read_if_it_is_there(tmp_path: Path, file: Path):
    usual = tmp_path / ".config" / "toolscout" / "config.toml"
    usual.parent.mkdir(parents=True)
    usual.write_text(file.read_text())
    assert Config.read(environment={}).profile == "cms"


def test_other_tables_of_the_file_are_somebody_elses(file: Path):
    file.write_text(f'{file.read_text()}\n[servers.time]\ncommand = "x"\n')
    assert Config.read(file, environment={}).profile == "cms"


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"TOOLSCOUT_MAX_SESSIONS": "many"}, "max_sessions is 'many', from the environment"),
        ({"TOOLSCOUT_MAX_SESSIONS": "0"}, "greater than 0"),
        ({"TOOLSCOUT_CALL_TIMEOUT_SECONDS": "nan"}, "call_timeout_seconds is 'nan'"),
        ({"TOOLSCOUT_CLEAR_ON_COMPACTION": "perhaps"}, "TOOLSCOUT_CLEAR_ON_COMPACTION"),
        ({"TOOLSCOUT_MAX_LODED": "1"}, "Did you mean TOOLSCOUT_MAX_LOADED"),
    ],
)
def test_a_wrong_variable_is_named_with_its_value(environment: dict[str, str], message: str):
    with pytest.raises(ConfigError) as caught:
        Config.read(environment=environment)
    assert message in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[settings]\nmax_loaded = -1\n", "settings.toml, [settings] max_loaded"),
        ('[settings]\nprofil = "cms"\n', "Did you mean profile"),
        ("settings = 3\n", "Write settings under [settings]"),
        ("[settings\n", "is not TOML"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(file: Path, text: str, message: str):
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        Config.read(file, environment={})
    assert message in str(caught.value)
    assert str(file) in str(caught.value)


def test_a_named_file_that_is_not_there_is_an_error(tmp_path: Path):
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        Config.read(tmp_path / "none.toml", environment={})


def test_a_misspelled_argument_is_an_error_with_the_nearest_name():
    with pytest.raises(ConfigError, match="Did you mean max_loaded"):
        Config.read(environment={}, maxloaded=3)


def test_variables_of_other_parts_and_empty_ones_are_left_alone():
    environment = {"TOOLSCOUT_BEARER_TOKEN": "x", "TOOLSCOUT_PROFILE": "", "PROFILE": "cms"}
    assert Config.read(environment=environment) == Config()


def test_a_config_cannot_be_changed():
    with pytest.raises(ValidationError):
        Config().profile = "cms"  # pyright: ignore[reportAttributeAccessIssue]


def test_folders_follow_xdg_unless_home_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert Config().state_folder == tmp_path / ".local" / "state" / "toolscout"
    assert Config().cache_folder == tmp_path / ".cache" / "toolscout"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    assert Config().state_folder == tmp_path / "elsewhere" / "toolscout"
    monkeypatch.setenv("XDG_STATE_HOME", "relative/paths/are/ignored")
    assert Config().state_folder == tmp_path / ".local" / "state" / "toolscout"
    own = Config.read(environment={"TOOLSCOUT_HOME": "~/mine"})
    assert own.state_folder == tmp_path / "mine" / "state"
    assert own.cache_folder == tmp_path / "mine" / "cache"


def test_the_settings_choose_the_store(tmp_path: Path):
    assert isinstance(open_store(Config(store="memory")), MemoryStore)
    kept = open_store(Config(home=tmp_path))
    assert isinstance(kept, SqliteStore)
    assert kept.path == tmp_path / "state" / "toolscout.db"
    kept.close()
    named = open_store(Config(store=str(tmp_path / "mine.db")))
    assert isinstance(named, SqliteStore)
    assert named.path == tmp_path / "mine.db"
    named.close()


@pytest.mark.parametrize(
    "store",
    [
        "mysql://ann:hunter2@host/db",
        "postgresql+psycopg://ann:hunter2@host/db",
        "postgresql:/ann:hunter2@host/db",
        " redis://:hunter2@host",
        "sqlite:///state.db",
    ],
)
def test_the_url_of_another_store_is_refused_without_its_password(store: str):
    with pytest.raises(ConfigError, match="is not the URL of a store") as caught:
        Config.read(environment={"TOOLSCOUT_STORE": store})
    assert "postgresql://USER@HOST/DATABASE" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    with pytest.raises(ConfigError, match="is not the URL of a store"):
        Toolbox([], store=store)


def test_the_path_of_a_file_may_have_a_drive_or_a_colon():
    for store in ("C:/state/toolscout.db", "/srv/a:b.db", "a:b.db"):
        assert Config(store=store).store == store


def test_the_cap_on_sessions_is_a_setting(tmp_path: Path):
    store = open_store(Config(store=str(tmp_path / "mine.db"), max_sessions=2))
    for name in "abc":
        store.put(name, "{}", expected=0)
    assert [r.key for r in store.list()] == ["c", "b"]
    store.close()


def test_the_documentation_has_every_setting_as_it_is():
    page = Path(__file__).parents[2] / "docs" / "settings.md"
    assert settings_table() in page.read_text()
