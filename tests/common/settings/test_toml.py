from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import ConfigurationError
from common.settings.exchanges import EXCHANGES
from common.settings.sections import Environment, Limits, Network, Optimizer, Settings
from common.settings.toml import (
    ELSEWHERE,
    NICKNAMES,
    REMOVED,
    RENAMED,
    by_path,
    dump,
    dump_changed,
    named_like,
    override,
    parse,
    read,
    replace_at,
)

finite = st.floats(allow_nan=False, allow_infinity=False)
positive = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
scalars = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), finite, st.text())
all_settings = st.builds(
    Settings,
    seed=st.integers(0, 2**31 - 1),
    environment=st.builds(
        Environment,
        id=st.text(min_size=1),
        num_envs=st.integers(1, 1024),
        reward_scale=positive,
        options=st.dictionaries(st.text(), scalars, max_size=4),
    ),
    network=st.builds(
        Network,
        hidden=st.lists(st.integers(1, 8192), min_size=1, max_size=16),
        activation=st.sampled_from(["relu", "tanh"]),
    ),
    optimizer=st.builds(
        Optimizer, learning_rate=positive, device=st.sampled_from(["cpu", "cuda:1", "cuda:0,cuda:2", "auto"])
    ),
    limits=st.builds(Limits, until_return=st.none() | finite, window=st.integers(1, 100_000)),
)


@given(all_settings)
def test_round_trip(settings: Settings) -> None:
    assert parse(dump(settings), "run.toml") == settings
    assert parse(dump_changed(settings), "run.toml") == settings


@given(st.binary())
def test_any_bytes_give_settings_or_a_configuration_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(data)
    try:
        assert isinstance(read(path), Settings)
    except ConfigurationError as error:
        assert str(error).startswith(str(path))


@given(
    st.sampled_from(["[environment]", "[network]", "[scaling]", "[environment.options]", "[x]", ""]),
    st.sampled_from(["seed", "kind", "policy", "hidden", "num_envs", "options", "optimizer", "x"]),
    st.sampled_from(["3", "-1", "2e400", "nan", "true", '"x"', "[1]", "[[]]", "{}", "{ x = 1 }", "1979-05-27", "x"]),
)
def test_any_assignment_gives_settings_or_an_error_of_one_line(section: str, key: str, value: str) -> None:
    try:
        parse(f"{section}\n{key} = {value}", "run.toml")
    except ConfigurationError as error:
        assert str(error).startswith("run.toml: ")
        assert "\n" not in str(error)


def test_dump_is_plain_toml_with_every_key_in_order() -> None:
    settings = Settings()
    document = tomllib.loads(dump(settings))
    plain = msgspec.to_builtins(settings)
    for section, key in (("limits", "until_return"), ("staleness", "drop_above"), ("optimizer", "beta1")):
        del plain[section][key]
    assert document == plain
    assert list(document) == list(plain)
    assert dump(settings).startswith(
        'seed = 0\nreproducible = false\n\n[environment]\nid = "CartPole-v1"\nnum_envs = 16\n'
    )


def test_dump_writes_options_as_a_table() -> None:
    settings = Settings(environment=Environment(options={"use lidar": False, "level": 2}))
    assert '[environment.options]\n"use lidar" = false\nlevel = 2\n' in dump(settings)


def test_missing_keys_keep_their_defaults() -> None:
    assert parse("[optimizer]\nlearning_rate = 1", "run.toml") == Settings(optimizer=Optimizer(learning_rate=1.0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[optimizer]\nlearning_rat = 1",
            "run.toml: optimizer.learning_rat is no setting; did you mean optimizer.learning_rate?",
        ),
        ("[optimiser]\nlearning_rate = 1", "run.toml: optimiser is no setting; did you mean optimizer?"),
        ("learning_rate = 1", "run.toml: learning_rate is no setting; did you mean optimizer.learning_rate?"),
        (
            "[network]\nentropy_coef = 1",
            "run.toml: network.entropy_coef is no setting; did you mean algorithm.entropy_coef?",
        ),
        (
            "[staleness]\nqqq = 1",
            "run.toml: staleness.qqq is no setting; staleness has policy, scale, refuse_factor, drop_above,",
        ),
        ("zzz = 1", "run.toml: zzz is no setting; the top has seed, reproducible, environment, network, algorithm,"),
        (
            '[scaling]\npolicy = "fix"',
            'run.toml: scaling.policy = "fix": must be one of episode-duration, fixed, load',
        ),
        ("[scaling]\npolicy = 3", "run.toml: scaling.policy = 3: must be one of episode-duration, fixed, load"),
        ("[optimizer]\nlearning_rate = 0", "run.toml: optimizer.learning_rate = 0: must be a number above 0"),
        ("[optimizer]\nlearning_rate = true", "run.toml: optimizer.learning_rate = true: must be a number above 0"),
        ("[optimizer]\nlearning_rate = inf", "run.toml: optimizer.learning_rate = inf: must be a finite number"),
        ("[optimizer]\nlearning_rate = nan", "run.toml: optimizer.learning_rate = nan: must be a number above 0"),
        *(
            (
                f"[network]\nkind = '{kind}'",
                f'run.toml: network.kind = "{kind}": must be one of auto, dense, conv-a3c, conv-students, conv-nature, '
                "conv-impala, or module:Class",
            )
            for kind in ("cnn", "conv", ":Small", "my.networks:", ".networks:Small", "a:b:Small", "a b:Small")
        ),
        ("[network]\nshared = 1", "run.toml: network.shared = 1: must be true or false"),
        (
            "[network]\nhidden = [64, 0]",
            "run.toml: network.hidden = [64, 0]: must be a list, each a whole number from 1 to 8192, 1 to 16 of them",
        ),
        ("environment = 3", "run.toml: environment = 3: must be a section"),
        ("seed = 1979-05-27", 'run.toml: seed = "1979-05-27": must be a whole number from 0 to 2147483647'),
        (
            "[environment.options]\na = [1]",
            'run.toml: environment.options = {"a": [1]}: must be a table, each value true or false, or',
        ),
        ("[algorithm]\nwhole_episodes = true", "run.toml: algorithm.whole_episodes = true needs environment.num_envs"),
        ("seed = ", "run.toml: is no TOML: Invalid value (at end of document)"),
        ("seed = 1\nseed = 2", "run.toml: is no TOML: Cannot overwrite a value ("),
        (f"seed = {'[' * 5000}", "run.toml: is no TOML"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match="^" + re.escape(message)):
        parse(text, "run.toml")


def test_read(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("seed = 7\n")
    assert read(path).seed == 7


def test_read_says_that_there_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.toml: No such file"):
        read(tmp_path / "none.toml")


def test_read_says_that_a_file_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(b'id = "\xff"')
    with pytest.raises(ConfigurationError, match=r"run\.toml: is no UTF-8 text \(byte 6\)"):
        read(path)


@pytest.mark.parametrize(
    ("assignment", "path", "value"),
    [
        ("seed=3", ("seed",), 3),
        ("optimizer.learning_rate=3e-4", ("optimizer", "learning_rate"), 3e-4),
        ("optimizer.kind=rmsprop", ("optimizer", "kind"), "rmsprop"),
        ('optimizer.kind = "rmsprop"', ("optimizer", "kind"), "rmsprop"),
        ("network.hidden=[64, 32]", ("network", "hidden"), [64, 32]),
        ("network.shared=false", ("network", "shared"), False),
        ("network.kind=my.networks:Small_1", ("network", "kind"), "my.networks:Small_1"),
        ("environment.id=a:B-v0", ("environment", "id"), "a:B-v0"),
        ("environment.id=x\nseed = 3", ("environment", "id"), "x\nseed = 3"),
        ('environment.id="x"\nseed = 3', ("environment", "id"), '"x"\nseed = 3'),
        ("environment.options.level=2", ("environment", "options", "level"), 2),
        ("limits.until_return=475", ("limits", "until_return"), 475.0),
    ],
)
def test_override(assignment: str, path: tuple[str, ...], value: object) -> None:
    found: Any = msgspec.to_builtins(override(Settings(), [assignment]))
    for key in path:
        found = found[key]
    assert found == value
    assert type(found) is type(value)


def test_override_applies_all_and_changes_nothing_else() -> None:
    changed = override(Settings(), ["seed=3", "environment.num_envs=1", "algorithm.whole_episodes=true", "seed=4"])
    assert changed.seed == 4
    assert changed.algorithm.whole_episodes
    assert changed.optimizer == Settings().optimizer


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("seed", "--set seed: must be section.key=value"),
        ("=3", "--set =3: must be section.key=value"),
        ("seed.x=3", "--set: seed.x: seed is a setting, not a section"),
        (
            "optimizer.learning_rat=3",
            "--set: optimizer.learning_rat is no setting; did you mean optimizer.learning_rate?",
        ),
        ("scaling.policy=fix", '--set: scaling.policy = "fix": must be one of'),
        ("algorithm.whole_episodes=true", "--set: algorithm.whole_episodes = true needs environment.num_envs = 1"),
        ("a.b=1", "--set: a is no setting"),
    ],
)
def test_override_errors(assignment: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match="^" + re.escape(message)):
        override(Settings(), [assignment])


def test_replace_at_puts_typed_values_over_settings() -> None:
    changed = replace_at(Settings(), {"limits.frames": 5, "network.hidden": [7], "environment.options.level": 2})
    assert (changed.limits.frames, changed.network.hidden, changed.environment.options) == (5, [7], {"level": 2})
    assert changed.optimizer == Settings().optimizer
    with pytest.raises(ConfigurationError, match=r"^settings: limits\.frames = -1: must be"):
        replace_at(Settings(), {"limits.frames": -1})


@pytest.mark.parametrize(("old", "new"), list(RENAMED.items()))
def test_an_old_key_is_refused_with_its_new_name(old: str, new: str) -> None:
    section, key = old.split(".")
    message = re.escape(f"{old} is no setting; it is {new} now")
    with pytest.raises(ConfigurationError, match=f"^run.toml: {message}$"):
        parse(f"[{section}]\n{key} = 1", "run.toml")
    with pytest.raises(ConfigurationError, match=f"^run.toml: {message}$"):
        parse(f"[for.a3c.{section}]\n{key} = 1", "run.toml")
    with pytest.raises(ConfigurationError, match=f"^--set: {message}$"):
        override(Settings(), [f"{old}=1"])
    known: Any = msgspec.to_builtins(Settings())
    section, key = new.split(".")
    assert key in known[section]


@pytest.mark.parametrize("key", sorted(REMOVED))
def test_a_removed_key_is_to_be_left_out(key: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"{key} is no setting; it was removed, leave it out")):
        override(Settings(), [f"{key}=1"])


CHOICES = """
[algorithm]
rollout_length = 16
[optimizer]
learning_rate = 0.5
decay = 0.5
[for.n-step-q.optimizer]
learning_rate = 0.25
[for.n-step-q.network]
hidden = [7]
[for.a3c.algorithm]
gamma = 0.5
"""


def test_tables_for_an_algorithm_hold_with_it_alone() -> None:
    own = parse(CHOICES, "run.toml")
    assert (own.algorithm.kind, own.algorithm.gamma, own.optimizer.learning_rate) == ("a3c", 0.5, 0.5)
    written = parse(CHOICES.replace("[algorithm]", '[algorithm]\nkind = "n-step-q"'), "run.toml")
    assert (written.algorithm.kind, written.algorithm.gamma, written.algorithm.rollout_length) == ("n-step-q", 0.99, 16)
    assert (written.optimizer.learning_rate, written.optimizer.decay, written.network.hidden) == (0.25, 0.5, [7])
    assert parse(CHOICES, "run.toml", "n-step-q") == written
    other = parse(CHOICES, "run.toml", "one-step-q")
    assert (other.algorithm.kind, other.algorithm.gamma, other.optimizer) == ("one-step-q", 0.99, own.optimizer)
    wanted = {"n-step-q": {"optimizer": {"decay": 0.75, "learning_rate": 0.75}}, "a3c": {"optimizer": {"decay": 0.75}}}
    assert parse(CHOICES, "run.toml", None, wanted) == own, "the text's own algorithm is the text's"
    beneath = parse(CHOICES, "run.toml", "n-step-q", wanted).optimizer
    assert (beneath.learning_rate, beneath.decay) == (0.25, 0.75)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("for = 3", "for = 3: must be a table"),
        ("[for]\na3c = 3", "for.a3c = 3: must be a table"),
        ("[for.a3c]\noptimizer = 3", "for.a3c.optimizer = 3: must be a table"),
        ("[for.nonsense.optimizer]", 'for.nonsense: algorithm.kind = "nonsense": must be one of a2c, a3c'),
        ("[for.a3c.optimizer]\nsize = 3", "optimizer.size is no setting"),
        ("[for.a3c.optimiser]\nsize = 3", "optimiser is no setting; did you mean optimizer?"),
        ("optimizer = 3\n[for.a3c.optimizer]\nsize = 3", "optimizer = 3: must be a section"),
        ("algorithm = 3\n[for.a3c.optimizer]", "algorithm = 3: must be a section"),
        ("[algorithm]\nkind = []\n[for.a3c.optimizer]", "algorithm.kind = []: must be one of"),
    ],
)
def test_tables_for_an_algorithm_that_cannot_be(text: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"run.toml: {why}")):
        parse(text, "run.toml")


@pytest.mark.parametrize(("word", "name"), ELSEWHERE.items())
def test_a_key_as_other_libraries_call_it_is_answered_with_ours(word: str, name: str) -> None:
    replace_at(Settings(), {name: msgspec.to_builtins(Settings())[name.partition(".")[0]][name.partition(".")[2]]})
    with pytest.raises(ConfigurationError, match=rf"optimizer\.{word} is no setting; did you mean {name}\?"):
        override(Settings(), [f"optimizer.{word}=1"])


@pytest.mark.parametrize(("word", "value"), NICKNAMES.items())
def test_a_value_as_other_libraries_call_it_is_answered_with_ours(word: str, value: str) -> None:
    path = "optimizer.device" if value == "cuda" else "network.kind"
    if value in EXCHANGES:
        path = "algorithm.kind"
    override(Settings(), [f"{path}={value}"])
    with pytest.raises(ConfigurationError, match=rf"must be one of .*; did you mean {value}\?"):
        override(Settings(), [f"{path}={word}"])


def test_the_nearest_value_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"; did you mean rmsprop\?"):
        override(Settings(), ["optimizer.kind=rmspro"])
    with pytest.raises(ConfigurationError, match=r"module:Class$"):
        override(Settings(), ["network.kind=xyzzy"])


@pytest.mark.parametrize(
    ("path", "value"),
    [("network.kind", "dense\n"), ("optimizer.device", "cpu\n"), ("environment.wrappers", ["a:B\n"])],
)
def test_a_line_end_is_no_part_of_a_name(path: str, value: object) -> None:
    """A text of several lines in a TOML file ends with one."""
    with pytest.raises(ConfigurationError, match=f"settings: {path} = .*: must be "):
        replace_at(Settings(), {path: value})


def test_only_what_differs_is_written_and_what_it_is_for() -> None:
    assert dump_changed(Settings()) == '[environment]\nid = "CartPole-v1"\n'
    text = dump_changed(override(Settings(), ["seed=3", "optimizer.beta1=0.5"]))
    assert "seed = 3" in text and "beta1 = 0.5" in text and "learning_rate" not in text


def test_each_setting_has_its_path_and_these_make_the_settings_again() -> None:
    settings = parse('seed = 3\nenvironment = { id = "A-v0", options = { wind = 2 } }', "a file")
    found = by_path(settings)
    assert (found["seed"], found["environment.id"], found["environment.options"]) == (3, "A-v0", {"wind": 2})
    assert replace_at(Settings(), found) == settings


@pytest.mark.parametrize(
    ("assignment", "meant"),
    [
        ("network.hidden=64", "[64]"),
        ("network.shared=True", "true"),
        ("evaluation.sampled=False", "false"),
        ("algorithm.kind=PPO", "ppo"),
        ("rollout=5", "algorithm.rollout_length"),
        ("optimizer.learning_rat=1", "optimizer.learning_rate"),
    ],
)
def test_what_was_probably_meant(assignment: str, meant: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"; did you mean {re.escape(meant)}\?$"):
        override(Settings(), [assignment])


@pytest.mark.parametrize(
    ("key", "path"), [("lr", "optimizer.learning_rate"), ("gamma", "algorithm.gamma"), ("seed", "seed"), ("xyzzy", "")]
)
def test_a_setting_by_its_last_name(key: str, path: str) -> None:
    assert named_like(key) == path
