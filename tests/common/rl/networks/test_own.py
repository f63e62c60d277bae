"""Networks of one's own: found, tried, and refused with one line that says why."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import linear

from common.errors import ConfigurationError
from common.rl.action_spec import discrete
from common.rl.networks import own
from common.rl.networks.flat import flatten
from common.rl.observation_spec import ObservationSpec

MODULE = "tests.helpers.own_networks"
BOX = ObservationSpec((2, 2), "box", 4)
ACTIONS = 3


def built(name: str, observation: ObservationSpec = BOX, actions: int = ACTIONS, seed: int = 1) -> own.Own:
    return own.build(f"{MODULE}:{name}", observation, discrete(actions), seed)


@pytest.mark.parametrize("name", ["Small", "Lazy"])
@pytest.mark.parametrize("observation", [BOX, ObservationSpec((3, 5, 4), "pixels", 60)])
def test_outputs_are_logits_and_value(name: str, observation: ObservationSpec) -> None:
    network = built(name, observation)
    flat = flatten(network)
    x = torch.from_numpy(np.random.default_rng(0).integers(256, size=(5, *observation.shape)).astype(observation.dtype))
    first, head, value = (
        [p.double() for name, p in network.named_parameters() if part in name] for part in ("trunk", "policy", "value")
    )
    features = linear(x.double().flatten(1), *first).tanh()
    logits, values = network(x)
    torch.testing.assert_close(logits.double(), linear(features, *head), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(values.double(), linear(features, *value)[:, 0], atol=1e-4, rtol=1e-4)
    assert torch.equal(network.features(x), torch.cat([logits, values.unsqueeze(1)], dim=1))
    assert flat.size == sum(parameter.numel() for parameter in (*first, *head, *value))


def test_a_discrete_observation() -> None:
    logits, values = built("Embedded", ObservationSpec((), "discrete", 5))(torch.tensor([0, 4, 2, 4]))
    assert (logits.shape, values.shape) == ((4, 3), (4,))
    assert torch.equal(logits[1], logits[3])
    assert not torch.equal(logits[0], logits[1])


def test_the_seed_decides_the_parameters_and_torchs_own_is_left_alone() -> None:
    before = torch.get_rng_state()
    first, same, other = (flatten(built("Small", seed=seed)).vector for seed in (1, 1, 2))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    assert torch.equal(before, torch.get_rng_state())


def test_the_hash_differs_where_networks_differ() -> None:
    pixels = ObservationSpec((2, 2), "pixels", 4)
    hashes = [flatten(built(name)).hash for name in ("Small", "Wider", "Other", "Lazy")]
    hashes += [flatten(built("Small", pixels)).hash, flatten(built("Small", actions=4)).hash]
    assert len(set(hashes)) == len(hashes)
    assert flatten(built("Small", seed=9)).hash == hashes[0]


def test_layers_of_other_shapes_under_the_same_name_have_another_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the file is older on one of the hosts."""
    before = flatten(built("Small")).hash
    monkeypatch.setattr(f"{MODULE}.Small.units", 10)
    assert flatten(built("Small")).hash != before


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Smal", "own_networks.py) has no network Smal; did you mean Small?"),
        ("NotAModule", "NotAModule is no class derived from torch.nn.Module"),
        ("not_a_class", "not_a_class is no class derived from torch.nn.Module"),
        ("Raises", "Raises(observation, 3) raised ValueError: no such observation"),
        (
            "RaisesForward",
            "forward on float32 observations (3, 2, 2) raised RuntimeError: shapes cannot be multiplied",
        ),
        ("OneTensor", "forward on float32 observations (3, 2, 2) must return two tensors, (logits, values)"),
        ("Unsqueezed", "must give values (3,) of torch.float32, not (3, 1) torch.float32"),
        ("TooFew", "must give logits (3, 3) of torch.float32, not (3, 2) torch.float32"),
        ("DoubleOutputs", "must give logits (3, 3) of torch.float32, not (3, 3) torch.float64"),
        ("Double", "parameter trunk.1.weight is torch.float64 on cpu, not torch.float32 on cpu"),
        ("Detached", "gives values that depend on no parameter, so that nothing could be learnt"),
        ("InPlace", "forward changes the observations it is given; they are used again"),
        ("Dropout", "an observation gives one thing in a batch and another alone: no dropout, no batch norm"),
        ("Counts", "forward changes the buffer seen; only parameters travel between the hosts"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(name: str, problem: str) -> None:
    with pytest.raises(
        ConfigurationError, match=f"^network.kind = {MODULE}:{name}: .*{re.escape(problem)}$"
    ) as refused:
        built(name)
    assert "\n" not in str(refused.value)


def test_a_module_that_is_not_there_or_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "failing_networks.py").write_text("print('to be seen on stderr')\n1 / 0\n")
    (tmp_path / "lacking_networks.py").write_text("import no_such_package\n")
    for kind, problem in (
        ("no_such_networks:Small", "no module named no_such_networks in this Python's path or"),
        ("lacking_networks:Small", "lacking_networks imports no_such_package, which is not installed here"),
        ("failing_networks:Small", "importing failing_networks failed: ZeroDivisionError"),
    ):
        with pytest.raises(ConfigurationError, match=f"^network.kind = {kind}: {problem}"):
            own.find(kind)


def test_what_a_module_prints_is_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "printing_networks.py").write_text("print('hello')\nfrom tests.helpers.own_networks import Small\n")
    assert own.find("printing_networks:Small").__name__ == "Small"
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "hello\n")
