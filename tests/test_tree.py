"""Rules of this project that can be checked in the tree itself."""

from __future__ import annotations

import ast
import importlib.metadata
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("common", "actor", "learner", "relay", "deploy", "simulation")
TORCH_FREE = (
    "common.wire.messages",
    "common.wire.frames",
    "common.wire.sockets",
    "common.wire.client",
    "common.settings.sections",
    "deploy.cli.command",
    "deploy.launcher.shell",
)
LIGHT = {"click", "msgpack", "msgspec", "psutil", "rich", "tomli_w", "zmq"}
"""What the torch-free modules may import besides the standard library."""
HEAVY = {"asyncio", "gymnasium", "numpy", "PIL", "psutil", "pygame", "rich", "safetensors", "tensorboardX", "torch"}
"""What takes some hundredths of a second to a few seconds to load."""
QUICK = {
    "--help": HEAVY,
    "actor --help": HEAVY,
    "launcher --help": HEAVY,
    "learner --help": HEAVY,
    "relay --help": HEAVY,
    "presets": HEAVY,
    "presets show CartPole-v1": HEAVY,
    "status --help": HEAVY,
    "status tcp://127.0.0.1:1 --timeout 0.01": HEAVY - {"rich"},
    "init --help": HEAVY,
    "track --help": HEAVY | {"wandb", "mlflow"},
    "train": HEAVY,
    "train CartPole-v1 --set nothing=1": HEAVY,
    "tune --help": HEAVY | {"optuna"},
    "check-config --parse-only nothing.toml": HEAVY,
}
"""Commands, and what they never load. `train` loads the rest when the learner is started."""
MAX_LINES = 400
UNSAFE = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
INDEX_HOSTS = ["py" + "pi.org", "python" + "hosted.org", "ana" + "conda.org", "download.py" + "torch.org"]


def sources(*folders: str) -> Iterator[Path]:
    """Python files, relative to the root."""
    for folder in folders:
        yield from (path.relative_to(ROOT) for path in sorted((ROOT / folder).rglob("*.py")))


def tree(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"), str(path))


def has_logic(path: Path) -> bool:
    """Whether there is a function with more than a docstring in it; constants, fields and interfaces need no test."""
    functions = (node for node in ast.walk(tree(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return any(not all(isinstance(node, ast.Expr) for node in function.body) for function in functions)


def mirror(source: Path) -> Path:
    """The test file of a source file."""
    stem = "init" if source.stem == "__init__" else source.stem
    return Path("tests", source.parent, f"test_{stem}.py")


def test_each_source_file_has_its_test_file() -> None:
    lacking = [
        str(source)
        for source in sources(*ROOMS)
        if source.stem != "__main__" and has_logic(source) and not (ROOT / mirror(source)).exists()
    ]
    assert lacking == []


def test_each_test_file_has_its_source_file() -> None:
    wanted = {mirror(source) for source in sources(*ROOMS)}
    found = {path for room in ROOMS for path in sources(f"tests/{room}") if path.name.startswith("test_")}
    assert sorted(map(str, found - wanted)) == []


def test_files_are_short_enough_to_read() -> None:
    """A longer file is probably about two things; split it by them."""
    paths = sources(*ROOMS, "benchmarks", "docs", "tests")
    lines = {str(path): len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in paths}
    assert {path: count for path, count in lines.items() if count > MAX_LINES} == {}


@pytest.mark.parametrize("room", ROOMS)
def test_no_other_distribution_owns_a_rooms_name(room: str) -> None:
    assert set(importlib.metadata.packages_distributions().get(room, ())) <= {"a3cd"}


def test_no_package_index_is_named() -> None:
    named = []
    for path in written():
        content = path.read_bytes().lower()
        named += [f"{path.relative_to(ROOT)}: {host}" for host in INDEX_HOSTS if host.encode() in content]
    assert named == []


def written() -> Iterator[Path]:
    """All files but those that programs write."""
    for path in ROOT.iterdir():
        if path.name == ".ci" or not path.name.startswith("."):
            yield from (path,) if path.is_file() else _below(path)


def _below(folder: Path) -> Iterator[Path]:
    if folder.name not in ("runs", "dist", "__pycache__"):
        for path in folder.iterdir():
            yield from (path,) if path.is_file() else _below(path)


def unsafe(path: Path) -> Iterator[str]:
    """Names in the file that let a file or a peer bring code with it."""
    for node in ast.walk(tree(path)):
        match node:
            case ast.Import(names=names):
                found = [name.name for name in names if name.name.partition(".")[0] in UNSAFE]
            case ast.ImportFrom(module=str(module), names=names):
                found = [module] if module.partition(".")[0] in UNSAFE else []
                found += ["torch.load" for name in names if (module, name.name) == ("torch", "load")]
            case ast.Attribute(value=ast.Name(id="torch"), attr="load"):
                found = ["torch.load"]
            case ast.keyword(arg="allow_pickle", value=ast.Constant(value=True)):
                found = ["allow_pickle"]
            case _:
                found = []
        yield from (f"{path}: {name}" for name in found)


def test_nothing_is_unpickled() -> None:
    assert [found for path in sources(*ROOMS) for found in unsafe(path)] == []


@pytest.mark.parametrize(
    "code",
    [
        *("import pickle", "import cloudpickle as c", "from pickle import loads", "from torch import load"),
        *("x = torch.load(f)", "np.load(f, allow_pickle=True)"),
    ],
)
def test_what_unpickles_is_found(code: str, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(code)
    assert list(unsafe(tmp_path / "x.py")) != []


def test_the_wire_the_settings_and_the_launcher_need_no_torch() -> None:
    script = (
        f"import importlib, sys; [importlib.import_module(name) for name in {TORCH_FREE!r}]\n"
        "for name, module in list(sys.modules.items()):\n"
        "    if 'site-packages' in (getattr(module, '__file__', None) or ''): print(name.partition('.')[0])"
    )
    command = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{script}"]
    loaded = set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    assert {"torch", "gymnasium", "numpy"} & loaded == set()
    assert "zmq" in loaded
    # What Python's own start-up and typing bring in is nobody's import here.
    assert loaded - LIGHT - {"typing_extensions", "_distutils_hack"} == set()


@pytest.mark.parametrize("command", QUICK)
def test_a_command_loads_only_what_it_needs(command: str) -> None:
    script = (
        "import atexit, sys\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        f"sys.argv[1:] = {command.split()!r}\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "from deploy.cli.command import main\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True)
    loaded = set(done.stderr.splitlines()[-1].split())
    assert {"click", "deploy.cli.command"} <= loaded
    assert loaded & QUICK[command] == set()
