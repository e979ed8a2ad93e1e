"""The layer of the kind `oscillator` in PyTorch's own complex numbers: parameters by the names of a model file, a loop over time."""

import math

import torch
from torch import nn
from torch.nn.functional import conv1d, pad, silu, softplus


class Oscillator(nn.Module):
    """Mamba's layer with d_state complex numbers for the states of a channel, which turn as well as decay."""

    def __init__(self, d_model, d_state, d_conv=4, expand=2):
        super().__init__()
        d_inner, dt_rank = expand * d_model, math.ceil(d_model / 16)
        self.sizes = [dt_rank, 2 * d_state, 2 * d_state]
        self.in_proj = nn.Linear(d_model, 2 * d_inner, bias=False)
        self.conv1d = nn.Conv1d(d_inner, d_inner, d_conv, groups=d_inner, padding=d_conv - 1)
        self.x_proj = nn.Linear(d_inner, sum(self.sizes), bias=False)
        self.dt_proj = nn.Linear(dt_rank, d_inner)
        self.A_log = nn.Parameter(torch.log(torch.arange(1.0, 2 * d_state, 2)).repeat(d_inner, 1))
        self.omega_log = nn.Parameter(torch.log(math.pi / 10 * torch.arange(1.0, d_state + 1)).repeat(d_inner, 1))
        self.D = nn.Parameter(torch.ones(d_inner))
        self.out_proj = nn.Linear(d_inner, d_model, bias=False)

    def forward(self, u):  # (batch, time, d_model)
        x, z = self.in_proj(u).chunk(2, dim=-1)
        window = pad(x.transpose(1, 2), (self.conv1d.kernel_size[0] - 1, 0))
        v = silu(conv1d(window, self.conv1d.weight, self.conv1d.bias, groups=x.shape[-1]).transpose(1, 2))
        dt, B, C = self.x_proj(v).split(self.sizes, dim=-1)
        # Real and imaginary parts take turns.
        B, C = (torch.view_as_complex(part.unflatten(-1, (-1, 2)).contiguous()) for part in (B, C))
        delta, A = softplus(self.dt_proj(dt)), torch.complex(-torch.exp(self.A_log), torch.exp(self.omega_log))
        s, p = torch.zeros(*v[:, 0].shape, A.shape[1], dtype=A.dtype, device=u.device), []
        for t in range(u.shape[1]):  # s (batch, d_inner, d_state)
            s = torch.exp(delta[:, t, :, None] * A) * s + (delta * v)[:, t, :, None] * B[:, t, None, :]
            p.append((s * C[:, t, None, :].conj()).real.sum(-1))
        return self.out_proj((torch.stack(p, 1) + self.D * v) * silu(z))
