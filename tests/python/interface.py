"""What users know of a release by name: options of its commands, keys of what they print as JSON, names in the Python package.

tests/data/VERSION/interface.json is that of an earlier release. In the folder of its files, scripts/make-release-files writes it:
interface.py PROGRAM > interface.json
"""

import inspect
import json
import re
import subprocess
import sys

import mac

# Commands that print JSON, as they run among the files of a release.
PRINTING = {
    "bench step": [],
    "diagnose": ["burgers.toml", "--trajectories", "2"],
    "diagnose memory": ["burgers.mamba.safetensors", "--data", "burgers.data.h5"],
    "evaluate": ["burgers.mamba.rollout.h5", "burgers.markov.rollout.h5"],
    "import": ["recorded.csv", "--time", "t", "--trajectory", "run", "--targets", "x", "-o", "printed.h5"],
    "info": ["burgers.mamba.safetensors"],
    "predict": ["burgers.mamba.safetensors", "--input", "burgers.data.h5", "-o", "printed.h5"],
    "run": ["equations.toml", "-o", "run", "--no-report"],
    "sweep": ["equations.toml", "--over", "models.regression.delays=1,2", "-o", "sweep"],
    "verify": ["burgers.data.h5"],
}


def printed(*command, folder="."):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True, cwd=folder).stdout


def options(program):
    """{command: its options}"""
    names = lambda *words: set(re.findall(r"(?<![\w-])(--?[a-z][\w-]*)", printed(program, *words, "--help")))
    listed = printed(program, "--help").partition("Subcommands:\n")[2].partition("\n\n")[0]
    commands = [*re.findall(r"^  ([a-z][\w-]*) ", listed, re.M), "diagnose memory"]
    return {command: sorted(names(*command.split())) for command in commands}


def keys(value):
    """All keys in a JSON value."""
    if isinstance(value, dict):
        return set(value) | {key for below in value.values() for key in keys(below)}
    return {key for member in value for key in keys(member)} if isinstance(value, list) else set()


def json_keys(program, folder="."):
    """{command: the keys it prints}"""
    run = lambda command, arguments: printed(program, *command.split(), *arguments, "--quiet", "--json", "-", folder=folder)
    return {command: sorted(keys(json.loads(run(command, arguments)))) for command, arguments in PRINTING.items()}


def python_names():
    """{name in mac: members of the class, or parameters of the function}"""

    def of(thing):
        if inspect.isclass(thing):
            return sorted({name for name in [*dir(thing), *getattr(thing, "__annotations__", {})] if not name.startswith("_")})
        return list(inspect.signature(thing).parameters) if inspect.isfunction(thing) else []

    return {name: of(getattr(mac, name)) for name in mac.__all__}


if __name__ == "__main__":
    found = {"options": options(sys.argv[1]), "json": json_keys(sys.argv[1]), "python": python_names()}
    lines = [f' "{kind}": {{\n' + ",\n".join(f'  "{name}": {json.dumps(all)}' for name, all in of.items()) + "\n }" for kind, of in found.items()]
    print("{\n" + ",\n".join(lines) + "\n}")
