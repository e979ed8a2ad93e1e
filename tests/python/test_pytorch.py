"""Weights in and out of PyTorch: names and shapes without it, the example itself where it is installed."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import STUDY, read_safetensors, write_safetensors

import mac

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/08-pytorch"
GOLDEN = os.environ["MAC_TEST_DATA"]


def pytorch_shapes(kind, d_in, d_out, d, blocks, states):
    """Names and shapes of the state_dict of examples/08-pytorch, as torch.nn and mamba-ssm make them."""
    inner, rank = 2 * d, -(-d // 16)
    shapes = {"input_proj.weight": (d, d_in), "input_proj.bias": (d,)}
    for i in range(blocks):
        shapes |= {f"blocks.{i}.norm.weight": (d,), f"blocks.{i}.norm.bias": (d,)}
        if kind in ("mamba", "oscillator"):
            parts = {"mamba": 1, "oscillator": 2}[kind]
            layer = {
                "in_proj.weight": (2 * inner, d),
                "conv1d.weight": (inner, 1, 4),
                "conv1d.bias": (inner,),
                "x_proj.weight": (rank + 2 * parts * states, inner),
                "dt_proj.weight": (inner, rank),
                "dt_proj.bias": (inner,),
                "A_log": (inner, states),
                "D": (inner,),
                "out_proj.weight": (d, inner),
            }
            if kind == "oscillator":
                layer["omega_log"] = (inner, states)
        elif kind == "mlp":
            layer = {"0.weight": (2 * d, d), "0.bias": (2 * d,), "2.weight": (d, 2 * d), "2.bias": (d,)}
        else:
            gates = {"gru": 3, "lstm": 4}[kind]
            layer = {f"{what}_l0": (gates * d, d) if "weight" in what else (gates * d,)
                     for what in ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]}
        shapes |= {f"blocks.{i}.{kind}.{name}": shape for name, shape in layer.items()}
    shapes |= {"norm.weight": (d,), "norm.bias": (d,)}
    return shapes | {
        "output_proj.0.weight": (d, d),
        "output_proj.0.bias": (d,),
        "output_proj.2.weight": (d_out, d),
        "output_proj.2.bias": (d_out,),
    }


KINDS = ["mamba", "gru", "mlp", "lstm", "oscillator"]


def study_of(kind):
    text = STUDY.replace('kind = "mamba"', f'kind = "{kind}"')
    return text if kind in ("mamba", "oscillator") else text.replace("d_state = 3\n", "")


@pytest.mark.parametrize("kind", KINDS)
def test_a_trained_model_is_a_state_dict(tmp_path, data, kind):
    text = study_of(kind)
    mac.train(mac.Experiment(text), data, tmp_path / "m.safetensors", threads=1)
    found = {name: array.shape for name, array in read_safetensors(tmp_path / "m.safetensors").items()}
    assert found == pytorch_shapes(kind, 6, 6, 6, 2, 3)


@pytest.mark.parametrize("kind, d, blocks, states", [("mamba", 20, 2, 5), ("gru", 9, 1, 0), ("mlp", 9, 2, 0), ("lstm", 9, 2, 0), ("oscillator", 20, 2, 5)])
def test_a_state_dict_is_a_model(tmp_path, kind, d, blocks, states):
    rng = np.random.default_rng(0)
    shapes = pytorch_shapes(kind, 4, 2, d, blocks, states)
    tensors = {name: rng.normal(size=shape, scale=0.3).astype(np.float32) for name, shape in shapes.items()}
    # PyTorch has an order of its own, and so may a file.
    write_safetensors(tmp_path / "torch.safetensors", dict(sorted(tensors.items())))
    closure = mac.load(tmp_path / "torch.safetensors")
    assert (closure.kind, closure.inputs, closure.outputs) == (kind, 4, 2)
    assert closure.parameters == sum(array.size for array in tensors.values())
    assert closure.closure_step is None and closure.system == "" and closure.input_names == []
    np.testing.assert_array_equal(closure.normalisation["input_scale"], np.ones(4))
    assert np.all(np.isfinite(closure.sequence(rng.normal(size=(3, 10, 4)))))

    del tensors["norm.bias"]
    write_safetensors(tmp_path / "torch.safetensors", tensors)
    with pytest.raises(mac.Error, match="norm.bias"):
        mac.load(tmp_path / "torch.safetensors")


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_of_any_kind_is_saved_and_restored(tmp_path, kind):
    """Also the empty state of a network without memory."""
    tensors = read_safetensors(f"{GOLDEN}/tiny_{kind}.safetensors")
    weights = {key[8:]: value for key, value in tensors.items() if key.startswith("weights.")}
    write_safetensors(tmp_path / "m.safetensors", weights)
    closure, x = mac.load(tmp_path / "m.safetensors"), tensors["x"][0]
    for y in x[:20]:
        closure.step(y)
    saved, expected = closure.state, [closure.step(y) for y in x[20:]]
    other = mac.load(tmp_path / "m.safetensors")
    other.state = saved
    np.testing.assert_array_equal([other.step(y) for y in x[20:]], expected)
    # A float32 network against PyTorch in float64: the bound that every float engine is held to.
    out = mac.load(tmp_path / "m.safetensors").sequence(tensors["x"])
    assert np.linalg.norm(out - tensors["out"]) < 2e-6 * np.linalg.norm(tensors["out"])


def test_the_official_recurrence_gives_the_same(tmp_path):
    """mamba-ssm's own step on a GPU, recorded in the golden file."""
    tensors = read_safetensors(f"{GOLDEN}/burgers_mamba.safetensors")
    weights = {key[8:]: value for key, value in tensors.items() if key.startswith("weights.")}
    write_safetensors(tmp_path / "m.safetensors", weights)
    out, official = mac.load(tmp_path / "m.safetensors").sequence(tensors["x"]), tensors["out_official_step_fp32"]
    # Two float32 networks, each within 2e-6 of exact arithmetic.
    assert np.linalg.norm(out - official) < 4e-6 * np.linalg.norm(official)


@pytest.mark.parametrize("name", KINDS)
def test_the_example_carries_a_network_over_and_back(tmp_path, data, name):
    if not importlib.util.find_spec("torch") or not importlib.util.find_spec("safetensors"):
        pytest.skip("PyTorch or safetensors is not installed: the example was not run")
    text = study_of(name)
    mac.train(mac.Experiment(text), data, tmp_path / "m.safetensors", threads=1)
    command = [sys.executable, "-B", EXAMPLE / "exchange.py", tmp_path / "m.safetensors", tmp_path / "back.safetensors"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "to the last bit" in done.stdout
