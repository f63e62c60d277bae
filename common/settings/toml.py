"""Run settings as TOML: strict reading, writing, and single values from a command line.

Every error is a ConfigurationError of one line: the source, the path of the key, its value, and the allowed values.
"""

import json
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec
import tomli_w
from msgspec import inspect

from common.errors import ConfigurationError
from common.settings.describe import describe, words_of
from common.settings.own_code import canonical
from common.settings.sections import Algorithm, Section, Settings
from common.settings.validate import check

RENAMED = {
    "environment.copies": "environment.num_envs",
    "environment.skip": "environment.frame_skip",
    "environment.stack": "environment.frame_stack",
    "network.spread": "network.log_std",
    "algorithm.rollout": "algorithm.rollout_length",
    "algorithm.discount": "algorithm.gamma",
    "algorithm.entropy": "algorithm.entropy_coef",
    "algorithm.value": "algorithm.value_coef",
    "algorithm.gradient_clip": "algorithm.max_grad_norm",
    "algorithm.clip": "algorithm.clip_range",
    "algorithm.kl_limit": "algorithm.target_kl",
    "optimizer.step_size": "optimizer.learning_rate",
}
"""Keys of earlier versions, which are refused, and their present names."""
RENAMED_KEYS = {old.rpartition(".")[2]: new for old, new in RENAMED.items()}
REMOVED = {"exchange.learner_delay_ms"}
ELSEWHERE = {
    "lr": "optimizer.learning_rate",
    "discount": "algorithm.gamma",
    "lambda": "algorithm.gae_lambda",
    "ent_coef": "algorithm.entropy_coef",
    "vf_coef": "algorithm.value_coef",
    "n_steps": "algorithm.rollout_length",
    "n_envs": "environment.num_envs",
    "env": "environment.id",
    "hidden_sizes": "network.hidden",
    "layers": "network.hidden",
    "cuda": "optimizer.device",
    "actors": "scaling.minimum",
    "workers": "scaling.minimum",
    "total_timesteps": "limits.frames",
    "steps": "limits.frames",
}
"""Names of keys in other libraries, and the keys here."""
NICKNAMES = {
    "cnn": "conv-a3c",
    "conv": "conv-a3c",
    "mlp": "dense",
    "fc": "dense",
    "resnet": "conv-impala",
    "dqn": "n-step-q",
    "q-learning": "one-step-q",
    "sarsa": "one-step-sarsa",
    "impala": "vtrace",
    "gpu": "cuda",
}
"""Names of values in other libraries, and the values here."""

_NAMED = ("environment", "id")
"""This setting is written even if it is the default: a file of settings says what it is for."""


def read(path: Path, algorithm: str | None = None, wanted: Mapping[str, Mapping[str, Any]] = {}) -> Settings:
    """Read the settings file at `path`, with its tables for an algorithm as in `parse`; raises ConfigurationError."""
    return parse(content_of(path), str(path), algorithm, wanted)


def content_of(path: Path) -> bytes:
    """Return the content of the settings file at `path`, for `parse`; raises ConfigurationError."""
    try:
        return path.read_bytes()
    except OSError as error:
        cure = "; `a3cd init ENV` writes such a file" if isinstance(error, FileNotFoundError) else ""
        raise ConfigurationError(f"{path}: {error.strerror}{cure}") from error


def parse(
    text: str | bytes, source: str, algorithm: str | None = None, wanted: Mapping[str, Mapping[str, Any]] = {}
) -> Settings:
    """Read settings from TOML `text`; `source` names it in errors. Missing keys keep their defaults.

    Bytes are UTF-8, TOML's own encoding, whatever the locale's is.

    Tables `[for.NAME.SECTION]` apply only if the run's algorithm, `algorithm` or else the one in `text`, is NAME.
    wanted: such tables by algorithm, which give way to those in `text`; they apply only if `algorithm` is not the one
    in `text`.
    """
    return _build(_chosen(document_of(text, source), source, algorithm, wanted), source)


def document_of(text: str | bytes, source: str) -> dict[str, Any]:
    """Read a TOML document, whatever it is about; raises ConfigurationError."""
    try:
        return tomllib.loads(text if isinstance(text, str) else text.decode())
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{source}: is no UTF-8 text (byte {error.start})") from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{source}: is no TOML: {error}") from error


def _chosen(
    document: dict[str, Any], source: str, algorithm: str | None, wanted: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the document with its tables for one algorithm merged into its sections."""
    tables = _table(document.pop("for", {}), source, "for")
    for name, sections in tables.items():
        _refuse_wrong({"algorithm": {"kind": name}}, Settings, "", f"{source}: for.{name}")
        for section, keys in _table(sections, source, f"for.{name}").items():
            _table(keys, source, f"for.{name}.{section}")
    written = document.get("algorithm", {})
    own = written.get("kind", Algorithm().kind) if isinstance(written, dict) else None
    if not isinstance(own, str):
        return document  # it is refused later
    kind = algorithm or own
    beneath = {} if kind == own else wanted.get(kind, {})
    for layer in ({"algorithm": {"kind": kind}}, beneath, tables.get(kind, {})):
        for section, keys in layer.items():
            before = document.get(section, {})
            document[section] = {**before, **keys} if isinstance(before, dict) else before
    return document


def _table(value: object, source: str, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigurationError(f"{source}: {name} = {_shown(value)}: must be a table")
    return value


def dump(settings: Settings) -> str:
    """Return every setting as TOML, sections in the order of the classes; a value of None is left out."""
    plain: dict[str, Any] = msgspec.to_builtins(settings)
    for name, section in plain.items():
        if isinstance(section, dict):
            plain[name] = {key: value for key, value in section.items() if value is not None}
    return tomli_w.dumps(plain)


def dump_changed(settings: Settings) -> str:
    """Return the environment's id and what differs from the defaults as TOML, like a preset; `parse` gives it back."""
    usual: dict[str, Any] = msgspec.to_builtins(Settings())
    plain: dict[str, Any] = {}
    for name, value in msgspec.to_builtins(settings).items():
        if isinstance(value, dict):
            kept = {key: its for key, its in value.items() if its != usual[name][key] or (name, key) == _NAMED}
            plain |= {name: kept} if kept else {}
        elif value != usual[name]:
            plain[name] = value
    return tomli_w.dumps(plain)


def override(settings: Settings, assignments: Iterable[str], source: str = "--set") -> Settings:
    """Apply assignments such as `optimizer.learning_rate=3e-4`, `seed=3` or `environment.options.difficulty=1`.

    The value is read as TOML; a word that is not TOML is text.
    """
    values: dict[str, object] = {}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals or not path.strip():
            example = "section.key=value, such as optimizer.learning_rate=1e-3"
            raise ConfigurationError(f"{source} {assignment}: must be {example}")
        values[path.strip()] = value_of(text.strip())
    return replace_at(settings, values, source)


def replace_at(settings: Settings, values: Mapping[str, object], source: str = "settings") -> Settings:
    """Return the settings with other values at dotted paths, such as {"limits.frames": 5}; checked like a file."""
    document: dict[str, Any] = msgspec.to_builtins(settings)
    for path, value in values.items():
        *tables, key = path.split(".")
        table = document
        for name in tables:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                raise ConfigurationError(f"{source}: {path}: {name} is a setting, not a section")
        table[key] = value
    return _build(document, source)


def by_path(settings: Settings) -> dict[str, Any]:
    """Return each setting's plain value by its dotted path; a table such as environment.options is one value."""
    found: dict[str, Any] = {}
    for name, value in msgspec.to_builtins(settings).items():
        found |= {f"{name}.{key}": its for key, its in value.items()} if isinstance(value, dict) else {name: value}
    return found


def _build(document: Mapping[str, Any], source: str) -> Settings:
    document = canonical(document, source)
    _refuse_wrong(document, Settings, "", source)
    settings = msgspec.convert(document, Settings)
    check(settings, source)
    return settings


def _refuse_wrong(document: Mapping[str, Any], section: type[Section], above: str, source: str) -> None:
    """Raise ConfigurationError for an unknown key or a wrong value. above: prefix of the keys, such as `algorithm.`."""
    kinds = {field.name: field.type for field in msgspec.structs.fields(section)}
    for key, value in document.items():
        name = above + key
        if key not in kinds:
            raise ConfigurationError(f"{source}: {name} is no setting{_suggestion(key, list(kinds), above)}")
        kind = kinds[key]
        if isinstance(kind, type) and issubclass(kind, Section) and isinstance(value, dict):
            _refuse_wrong(value, kind, f"{name}.", source)
            continue
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError:
            info = inspect.type_info(kind)
            problem = f"{name} = {_shown(value)}: must be {describe(info)}{_nearest(value, info)}"
            raise ConfigurationError(f"{source}: {problem}") from None


def _suggestion(key: str, known: list[str], above: str) -> str:
    """Suggest the new name of an old key, the nearest key here, the same key in another section, or all keys here."""
    name = above + key
    if name in RENAMED:
        return f"; it is {RENAMED[name]} now"
    if name in REMOVED:
        return "; it was removed, leave it out"
    if near := get_close_matches(key, known, n=1):
        return f"; did you mean {above}{near[0]}?"
    if meant := named_like(key):
        return f"; did you mean {meant}?"
    return f"; {above.rstrip('.') or 'the top'} has {', '.join(known)}"


def named_like(key: str) -> str:
    """Return the path of the setting with this name, in any section or in another library; empty if there is none."""
    if key in ELSEWHERE:
        return ELSEWHERE[key]
    paths = by_path(Settings())
    return next((path for path in paths if path.rpartition(".")[2] == key), RENAMED_KEYS.get(key, ""))


def _nearest(value: object, kind: inspect.Type) -> str:
    """Suggest the allowed value that was probably meant, if any."""
    if isinstance(kind, inspect.ListType) and not isinstance(value, list):
        return f"; did you mean [{_shown(value)}]?" if isinstance(value, int | float) else ""
    if not isinstance(value, str):
        return ""
    allowed, typed = words_of(kind), value.lower()
    near = [one for one in (NICKNAMES.get(typed), *get_close_matches(typed, allowed, n=1)) if one in allowed]
    return f"; did you mean {near[0]}?" if near else ""


def value_of(text: str) -> object:
    """Read a value from a command line as TOML; a word that is not TOML is text."""
    try:
        document = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    # A line break in `text` could have started a second assignment.
    return document["value"] if len(document) == 1 else text


def _shown(value: object) -> str:
    return str(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False, default=str)
