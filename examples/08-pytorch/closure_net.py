"""The closure network in PyTorch. Its state_dict has the names of a MAC model file, so weights pass both ways."""

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from plain_oscillator import Oscillator

try:
    from mamba_ssm import Mamba
except ImportError:  # no CUDA, no compiler: the same layer in plain PyTorch
    from plain_mamba import Mamba


def make_layer(kind, d_model, d_state):
    if kind == "mamba":
        return Mamba(d_model, d_state=d_state, d_conv=4, expand=2)
    if kind == "oscillator":
        return Oscillator(d_model, d_state)
    if kind == "mlp":
        return nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.SiLU(), nn.Linear(2 * d_model, d_model))
    return {"gru": nn.GRU, "lstm": nn.LSTM}[kind](d_model, d_model, batch_first=True)


class Block(nn.Module):
    def __init__(self, kind, d_model, d_state):
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.kind = kind
        self.add_module(kind, make_layer(kind, d_model, d_state))

    def forward(self, h):
        out = getattr(self, self.kind)(self.norm(h))
        return h + (out[0] if isinstance(out, tuple) else out)  # recurrent layers of PyTorch give their state as well


class ClosureNet(nn.Module):
    """x (batch, time, d_in), normalised -> (batch, time, d_out), normalised"""

    def __init__(self, kind, d_in, d_out, d_model, n_blocks, d_state=0):
        super().__init__()
        self.input_proj = nn.Linear(d_in, d_model)
        self.blocks = nn.ModuleList(Block(kind, d_model, d_state) for _ in range(n_blocks))
        self.norm = nn.LayerNorm(d_model)
        self.output_proj = nn.Sequential(nn.Linear(d_model, d_model), nn.SiLU(), nn.Linear(d_model, d_out))

    def forward(self, x):
        h = nn.functional.silu(self.input_proj(x))
        for block in self.blocks:
            h = block(h)
        return self.output_proj(self.norm(h))


def from_mac(path):
    """The network of a MAC model file; kind and sizes are read off the tensors."""
    tensors = load_file(path)
    kind = next(name.split(".")[2] for name in tensors if name.startswith("blocks.0.") and ".norm." not in name)
    net = ClosureNet(
        kind,
        d_in=tensors["input_proj.weight"].shape[1],
        d_out=tensors["output_proj.2.weight"].shape[0],
        d_model=tensors["input_proj.weight"].shape[0],
        n_blocks=sum(name.endswith(".norm.weight") for name in tensors if name.startswith("blocks.")),
        d_state=next((t.shape[1] for name, t in tensors.items() if name == f"blocks.0.{kind}.A_log"), 0),
    )
    net.load_state_dict(tensors)
    return net


def to_mac(net, path, **metadata):
    """A file that MAC loads. Metadata are optional: docs/pytorch.md says which, and what they are for."""
    tensors = {name: tensor.detach().float().contiguous().cpu() for name, tensor in net.state_dict().items()}
    save_file(tensors, path, metadata={key: str(value) for key, value in metadata.items()} or None)
