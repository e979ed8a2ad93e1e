"""Rollouts on many fresh trajectories and their errors: what scripts/error-quantiles and scripts/frontier-figure share."""
import json
import os
import re
import struct
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAC = os.environ.get("MAC", str(ROOT / "build/mac"))
SEED = 2003  # of neither the studies nor experiments/zoo

# The experiment of zoo/ that says how data are made, how many trajectories of which splits, the intervals, and the variables: by
# name, or all of them together. The best models of the power grid close other reduced equations, the wide one in other steps, so they take data of their own.
SYSTEMS = {
    "burgers": ("burgers", 400, ["test"], [(0, 1), (1, 2)], ["phi3", "psi3"]),
    "kdv": ("kdv", 400, ["test"], [(0, 1), (1, 2)], ["phi3", "psi3"]),
    "kdv-best": ("best/kdv", 400, ["test"], [(0, 1), (1, 2)], ["phi3", "psi3"]),
    "power_grid": ("power_grid", 400, ["test", "ood"], [(0, 10)], ["omega1", "alpha2"]),
    "power_grid-best": ("best/power_grid", 400, ["test", "ood"], [(0, 10)], ["omega1", "alpha2"]),
    "power_grid-wide": ("wide/power_grid", 400, ["test", "ood"], [(0, 10)], ["omega1", "alpha2"]),
    "lorenz96": ("lorenz96", 100, ["test"], [(0, 20)], ["all X"]),
}
SPLITS = {"test": "test", "ood": "out of distribution"}


def fresh_experiment(name, trajectories, splits):
    """The experiment of zoo/ with another seed and more trajectories, as text; the splits that are not asked for left out."""
    text = (ROOT / f"experiments/zoo/{name}.toml").read_text()
    text = re.sub(r"(?m)^seed = \d+$", f"seed = {SEED}", text)
    text = re.sub(r"(?m)^trajectories = \d+$", f"trajectories = {trajectories}", text)
    for split in set(SPLITS) - set(splits):
        text = re.sub(rf"(?ms)^\[data\.{split}\]\n.*?(?=^\[)", "", text)
    return text.replace('file = "', f'file = "{ROOT}/experiments/zoo/{os.path.dirname(name)}/')


def some_members(ensemble, chosen, path):
    """The members `chosen` of an ensemble's file as an ensemble of their own. Each has its share of the mean in its last layer."""
    import numpy as np

    content = Path(ensemble).read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    about = header.pop("__metadata__")
    members, about["members"] = int(about["members"]), str(len(chosen))
    about["ensemble_of"] = " ".join(about["ensemble_of"].split()[member] for member in chosen)
    about.pop("file_checksum", None)
    tensors, kept = {"__metadata__": about}, b""
    for place, member in enumerate(chosen):
        for name, tensor in header.items():
            if not name.startswith(f"members.{member}."):
                continue
            begin, end = tensor["data_offsets"]
            renamed = name.replace(f"members.{member}.", f"members.{place}.", 1)
            tensors[renamed] = {**tensor, "data_offsets": [len(kept), len(kept) + end - begin]}
            values = np.frombuffer(data[begin:end], {"F32": "<f4", "F64": "<f8"}[tensor["dtype"]])
            if ".output_proj.2." in name:
                values = values * values.dtype.type(members / len(chosen))
            kept += values.tobytes()
    text = json.dumps(tensors).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + kept)


def errors_of(data, rollout, system):
    """{(split, interval, variable): the errors of all rollouts}"""
    import h5py
    import numpy as np

    _, _, splits, intervals, variables = SYSTEMS[system]
    errors = {}
    for split in splits:
        with h5py.File(data) as file:
            truth, time = file[split]["resolved"][:], file[split]["time"][:]
            names = json.loads(file["system_description"][0])["resolved"]
        with h5py.File(rollout) as file:
            run = file[split]["members/resolved" if "members" in file[split] else "resolved"][:]
        truth = np.repeat(truth, len(run) // len(truth), axis=0)  # the members of a trajectory follow one another
        for begin, end in intervals:
            inside = (time > begin - 1e-9) & (time < end + 1e-9)
            for variable in variables:
                chosen = [names.index(variable)] if variable in names else list(range(len(names)))
                x, y = truth[:, inside][:, :, chosen], run[:, inside][:, :, chosen]
                with np.errstate(invalid="ignore", over="ignore"):
                    relative = 100 * np.sqrt(((y - x) ** 2).sum(axis=(1, 2)) / (x**2).sum(axis=(1, 2)))
                errors[split, f"[{begin},{end}]", variable] = np.where(np.isfinite(relative), relative, np.inf)
    return errors


def generate(system, scratch):
    """The data file of the fresh trajectories."""
    study, trajectories, splits, _, _ = SYSTEMS[system]
    experiment, data = f"{scratch}/experiment.toml", f"{scratch}/data.h5"
    Path(experiment).write_text(fresh_experiment(study, trajectories, splits))
    subprocess.run([MAC, "generate", experiment, "-o", data, "--quiet"], check=True)
    return data


def rollout_errors(system, options, data, scratch):
    """errors_of a rollout with these options of mac rollout, the model first."""
    rollout = f"{scratch}/rollout.h5"
    subprocess.run([MAC, "rollout", *options, "--data", data, "-o", rollout, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    errors = errors_of(data, rollout, system)
    os.remove(rollout)
    return errors
