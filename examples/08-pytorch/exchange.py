"""A network from MAC to PyTorch and back. Usage: exchange.py MODEL.safetensors BACK.safetensors"""

import json
import sys

import numpy as np
import torch
from closure_net import from_mac, to_mac
from safetensors import safe_open

import mac

source, back = sys.argv[1:]
closure = mac.load(source)
net = from_mac(source)

# The same states through both. The network in the file sees normalised variables; mac.Closure does that itself.
y = np.random.default_rng(0).normal(size=(3, 100, closure.inputs))
n = closure.normalisation
with torch.no_grad():
    x = torch.tensor((y - n["input_mean"]) / n["input_scale"], dtype=torch.float32)
    theirs = n["output_mean"] + n["output_scale"] * net(x).double().numpy()
ours = closure.sequence(y)
distance = np.linalg.norm(ours - theirs) / np.linalg.norm(theirs)
print(f"PyTorch and MAC differ by {distance:.1e}")
assert distance < 4e-6  # two float32 networks, each within 2e-6 of exact arithmetic

# Here PyTorch would train on. Back again, with the metadata that the file came with:
with safe_open(source, "pt") as file:
    metadata = file.metadata() or {}
to_mac(net, back, **metadata)
again = mac.load(back)
assert np.array_equal(again.sequence(y), ours)
print(f"{back} gives what {source} gave, to the last bit; it came with {json.dumps(sorted(metadata))}")
