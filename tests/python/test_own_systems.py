"""Systems of one's own in Python: equations as text, and NumPy functions."""

import numpy as np
import pytest

import mac

RING = """
kind = "equations"
name = "ring"
parameters = { N = 3, a = 0.5 }
resolved = ["x[i], i = 1..N, cyclic"]
hidden = ["q[i], i = 1..N, cyclic"]
equations = \"\"\"
dx[i] = -x[i]^3 + a*x[i+1] + q[i]
dq[i] = x[i-1] - 2*q[i]
\"\"\"
reduced = { q = "drop" }
[initial]
x = "normal(0, 1)"
q = 0
"""

STUDY = """
[data]
dt = 0.02
stride = 2
[data.train]
trajectories = 6
horizon = 0.8
[data.validation]
trajectories = 2
horizon = 0.8
[data.test]
trajectories = 3
horizon = 0.8
[[models]]
name = "mac"
kind = "gru"
d_model = 3
blocks = 1
[training]
recipe = "fast"
steps = 4
batch = 3
validate_every = 2
[[training.stages]]
steps = 2
[[training.stages]]
loss = "rollout"
rollout_steps = 2
steps = 2
"""


def ring_rates(z):
    x, q = z[:, :3], z[:, 3:]
    return np.hstack([-(x**3) + 0.5 * np.roll(x, -1, axis=1) + q, np.roll(x, 1, axis=1) - 2 * q])


def ring_reduced(x):
    return -(x**3) + 0.5 * np.roll(x, -1, axis=1)


def function_ring(name="function_ring", **changes):
    settings = dict(
        full=ring_rates,
        reduced=ring_reduced,
        sample=lambda rng: np.append(rng.normal(size=3), np.zeros(3)),
        names=["x1", "x2", "x3"],
    )
    settings.update(changes)
    return mac.System.from_functions(name, **settings)


def test_equations_are_those_of_the_text():
    system = mac.System.from_equations(RING)
    assert system.name == "ring"
    assert system.resolved_names == ["x1", "x2", "x3"]
    assert system.closure_names == ["C_x1", "C_x2", "C_x3"]
    y = np.random.default_rng(0).normal(size=(5, 3))
    np.testing.assert_allclose(system.reduced_rhs(y), ring_reduced(y), rtol=1e-14)


def test_equations_come_from_a_file(tmp_path):
    path = tmp_path / "ring.toml"
    path.write_text("[system]\n" + RING.replace("[initial]", "[system.initial]") + STUDY)
    assert mac.System.from_equations(path).name == "ring"
    assert mac.Experiment.read(path).system.resolved_names == ["x1", "x2", "x3"]


@pytest.mark.parametrize("make", [lambda: mac.System.from_equations(RING), function_ring])
def test_a_study_goes_from_the_system_to_the_report(make, tmp_path):
    system = make()
    experiment = mac.Experiment(STUDY, system=system)
    result = mac.run(experiment, tmp_path / "run", threads=1)
    assert result.metrics["system"] == system.name
    data = mac.read_data(tmp_path / "run" / "data.h5")
    z = data["test"]
    np.testing.assert_allclose(
        np.gradient(z.resolved[0], 0.04, axis=0)[2:-2],
        (ring_reduced(z.resolved[0]) + z.closure[0])[2:-2],
        atol=0.05,
    )
    closure = mac.load(tmp_path / "run" / "models" / "mac-seed0.safetensors")
    run = mac.rollout(system, z.resolved[:, 0], z.time, closure)
    assert np.all(np.isfinite(run.resolved))


def test_functions_and_text_give_the_same_data(tmp_path):
    # Both start at the same states where nothing is drawn.
    text = RING.replace('x = "normal(0, 1)"', 'x = [0.5, -0.25, 1.0]')
    plan = STUDY.split("[[models]]")[0]
    mac.generate(mac.Experiment(plan, system=mac.System.from_equations(text)), tmp_path / "text.h5")
    system = function_ring("fixed_ring", sample=lambda rng: np.array([0.5, -0.25, 1.0, 0, 0, 0]))
    mac.generate(mac.Experiment(plan, system=system), tmp_path / "functions.h5")
    a, b = (mac.read_data(tmp_path / name)["test"] for name in ("text.h5", "functions.h5"))
    np.testing.assert_allclose(a.resolved, b.resolved, rtol=1e-12)
    np.testing.assert_allclose(a.closure, b.closure, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"full": lambda z: z[:, :3]}, "full of the system .* gave the shape"),
        ({"reduced": lambda y: "text"}, "reduced of the system .* gave str"),
        ({"sample": lambda rng: np.zeros(5), "size": 6}, "sample of the system .* expected an array of shape"),
        ({"full": lambda z: z / 0}, "full of the system .* gave"),
        ({"targets": [3]}, "targets has 3"),
        ({"targets": []}, "targets is empty"),
        ({"targets": [-1]}, "targets is"),
        ({"size": 3}, "size is 3"),
        ({"names": []}, "needs the name"),
        ({"names": None}, r"takes the names of the resolved variables, names="),
        ({"resolved": ["x1", "x2", "x3"]}, r"takes the names of the resolved variables, names="),
        ({"targets": ["x4"]}, "targets has 'x4', expected some of x1, x2, x3"),
        ({"sample": lambda rng: np.zeros(3)}, "size is 3"),
        ({"reduced_vjp": lambda y, v: v}, "reduced_vjp of the system .* is not the derivative of reduced: for x1"),
        ({"reduced_vjp": lambda y, v: v[:, :2]}, "reduced_vjp of the system .* gave the shape"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide", "ignore:invalid")
def test_functions_that_do_not_fit_are_named(changes, message):
    with pytest.raises(mac.UsageError, match=message):
        function_ring("wrong", **changes)


def ring_vjp(y, v):
    return -3 * y**2 * v + 0.5 * np.roll(v, 1, axis=1)


def test_a_gradient_that_is_given_is_the_one_that_trains(tmp_path):
    calls = []

    def counted(y, v):
        calls.append(len(y))
        return ring_vjp(y, v)

    experiment = mac.Experiment(STUDY, system=function_ring("differenced_ring"))
    mac.generate(experiment, tmp_path / "data.h5")
    mac.train(experiment, tmp_path / "data.h5", tmp_path / "differences.safetensors")
    given = mac.Experiment(STUDY, system=function_ring("differenced_ring", reduced_vjp=counted))
    mac.train(given, tmp_path / "data.h5", tmp_path / "given.safetensors")
    assert calls
    a, b = (mac.load(tmp_path / f"{name}.safetensors") for name in ("differences", "given"))
    y = [0.3, -0.5, 0.7]
    np.testing.assert_allclose(a.step(y), b.step(y), rtol=1e-4)  # of two steps with gradients that differ by 1e-10


def test_names_may_be_said_in_the_older_way_and_targets_by_name():
    system = function_ring("named_ring", names=None, resolved=["x1", "x2", "x3"], size=6, targets=["x3", "x1"])
    assert system.resolved_names == ["x1", "x2", "x3"]
    assert system.closure_names == ["C_x3", "C_x1"]


def test_a_name_of_the_program_is_not_replaced():
    with pytest.raises(mac.UsageError, match="burgers"):
        function_ring("burgers")


def test_functions_given_again_replace_the_first():
    function_ring("again")
    other = function_ring("again", reduced=lambda y: 0 * y)
    assert np.all(other.reduced_rhs(np.ones(3)) == 0)
    experiment = mac.Experiment(STUDY, system=other)
    assert np.all(experiment.system.reduced_rhs(np.ones(3)) == 0)


def test_mistakes_in_equations_point_at_the_character():
    with pytest.raises(mac.UsageError, match=r"there is no parameter, variable or quantity b") as error:
        mac.System.from_equations(RING.replace("a*x[i+1]", "b*x[i+1]"))
    assert "^" in str(error.value)
    with pytest.raises(mac.UsageError, match="kind is None"):
        mac.System.from_equations('name = "burgers"\n')
    with pytest.raises(mac.UsageError, match="cannot be read"):
        mac.System.from_equations("no_such_file.toml")
    with pytest.raises(mac.UsageError, match="not valid TOML"):
        mac.System.from_equations("a = \n")
