"""mac.fit and mac.rollout with numbers that are no unknowns, with fields, with masks, with derivatives of one's own."""

import json

import numpy as np
import pytest

import mac

DT = 0.1
QUICK = dict(recipe="fast", steps=12, d_model=3, blocks=1, d_state=2, threads=1)


def driven(n=12, times=31, seed=1):
    """x' = -x + a z, z' = (sin 2x - z + w(t))/0.2: a parameter a of each trajectory, a forcing w; resolved x."""
    rng = np.random.default_rng(seed)
    x, z, a = rng.uniform(-1, 1, n), np.zeros(n), rng.uniform(0.5, 2, n)
    wind = np.sin(DT * np.arange(times)[None] + rng.uniform(0, 6, n)[:, None])
    xs, cs = [], []
    for k in range(times):
        xs.append(x), cs.append(a * z)
        for _ in range(50):
            x, z = x + DT / 50 * (a * z - x), z + DT / 50 * (np.sin(2 * x) - z + wind[:, k]) / 0.2
    return np.stack(xs, 1)[:, :, None], np.stack(cs, 1)[:, :, None], a, wind


def ring(n=10, times=25, sites=6, seed=2):
    """u_i' = u_{i-1} - 2 u_i + u_{i+1} - u_i^3: the reduced equation is the diffusion."""
    u = np.random.default_rng(seed).normal(size=(n, sites))
    us, cs = [], []
    for _ in range(times):
        us.append(u), cs.append(-(u**3))
        for _ in range(20):
            u = u + DT / 20 * (diffusion(0, u) - u**3)
    return np.stack(us, 1), np.stack(cs, 1)


def diffusion(t, u):
    return np.roll(u, 1, -1) - 2 * u + np.roll(u, -1, -1)


def decay(t, y):
    return -y


def test_inputs_are_read_by_the_network_and_stored_with_the_data(tmp_path):
    y, c, a, wind = driven()
    path = tmp_path / "m.safetensors"
    closure = mac.fit(path, y, c, DT, rhs=decay, names=["x"], inputs={"a": a, "wind": wind}, **QUICK)
    assert closure.input_names == ["x", "a", "wind"] and closure.inputs == 3
    data = mac.read_data(tmp_path / "m.data.h5")
    assert data.parameters == ["a"] and data.forcing == ["wind"]
    np.testing.assert_array_equal(data["train"].parameters[:, 0], a[:11])
    np.testing.assert_array_equal(data["validation"].forcing[:, :, 0], wind[11:])


def test_functions_of_the_time_are_inputs(tmp_path):
    y, c, a, wind = driven()
    phase = np.arange(12.0)
    inputs = {"sun": np.cos, "tide": lambda t: np.sin(t + phase)}
    mac.fit(tmp_path / "m.safetensors", y, c, DT, rhs=decay, inputs=inputs, **QUICK)
    data, t = mac.read_data(tmp_path / "m.data.h5"), DT * np.arange(31)
    assert data.forcing == ["sun", "tide"]
    np.testing.assert_array_equal(data["train"].forcing[..., 0], np.broadcast_to(np.cos(t), (11, 31)))
    np.testing.assert_array_equal(data["validation"].forcing[..., 1], [np.sin(t + 11)])
    with pytest.raises(mac.UsageError, match="the function tide gave the shape"):
        mac.fit(tmp_path / "m.safetensors", y, c, DT, rhs=decay, inputs={"tide": lambda t: np.zeros(5)}, **QUICK)


def test_expressions_of_the_time_have_the_clock_of_the_files(tmp_path):
    t = 5 + DT * np.arange(101)
    np.savetxt(tmp_path / "x.csv", np.stack([t, np.sin(t)], 1), delimiter=",", header="t,x", comments="")
    data = mac.read(tmp_path / "x.csv", tmp_path / "d.h5", split="time", test=0.2, given={"tide": "sin(2*t)", "one": "atan2(t, t)"})
    assert data.forcing == ["one", "tide"]
    x = np.concatenate([data[name].resolved[0, :, 0] for name in ["train", "validation", "test"]])
    tide = np.concatenate([data[name].forcing[0, :, 1] for name in ["train", "validation", "test"]])
    # Each row has the time of its own: sin 2t = 2 sin t cos t, whose square is known from x.
    np.testing.assert_allclose(tide**2, 4 * x**2 * (1 - x**2), atol=1e-12)
    assert np.ptp(data["test"].forcing[0, :, 1]) > 0.5
    mac.write_data(tmp_path / "again.h5", data.experiment, {name: data[name] for name in data})
    assert mac.read_data(tmp_path / "again.h5").forcing == ["one", "tide"]
    for given, message in [({"tide": "sin(2*"}, "data.given.tide"), ({"": "t"}, "is no NAME = EXPRESSION")]:
        with pytest.raises(mac.UsageError, match=message):
            mac.read(tmp_path / "x.csv", tmp_path / "no.h5", split="time", given=given)


def test_inputs_make_a_closure_better_that_depends_on_them(tmp_path):
    y, c, a, wind = driven(n=30)
    errors = []
    for inputs in [None, {"a": a, "wind": wind}]:
        settings = dict(recipe="fast", kind="mlp", steps=300, d_model=8, blocks=1, threads=1)  # memory would tell dx/dt, and so the closure
        closure = mac.fit(tmp_path / "m.safetensors", y, c, DT, inputs=inputs, **settings)
        features = y if inputs is None else np.concatenate([y, np.broadcast_to(a[:, None, None], y.shape), wind[..., None]], axis=2)
        closure.reset()
        errors.append(np.sqrt(np.mean((closure.sequence(features)[27:] - c[27:]) ** 2)))
    assert errors[1] < 0.7 * errors[0]  # .38 and .74 in one seed: the state alone does not tell the parameter


def test_a_rollout_with_inputs_is_that_of_the_program(tmp_path):
    y, _, a, wind = driven()
    path, t = tmp_path / "m.safetensors", DT * np.arange(31)
    closure = mac.fit(path, y, dt=DT, inputs={"a": a, "wind": wind}, **QUICK)  # no equations: the program has them
    mac.rollout_data(path, tmp_path / "m.data.h5", tmp_path / "r.h5", splits="validation", threads=1)
    expected = mac.read_rollout(tmp_path / "r.h5")["validation"].resolved
    zero = lambda t, y: np.zeros_like(y)
    run = mac.rollout(zero, y[11:, 0], t, closure, inputs={"a": a[11:], "wind": wind[11:]})
    np.testing.assert_array_equal(run.resolved, expected)
    one = mac.rollout(zero, y[11, 0], t, closure, inputs={"wind": wind[11], "a": a[11]})  # in any order
    np.testing.assert_array_equal(one.resolved, expected[0])
    by_function = mac.rollout(zero, y[11:, 0], t, closure, inputs={"a": lambda t: a[11], "wind": lambda t: wind[11:, round(t / DT)]})
    np.testing.assert_array_equal(by_function.resolved, expected)
    first = mac.rollout(zero, y[11:, 0], t[:16], closure, inputs={"a": a[11:], "wind": wind[11:, :16]})
    rest = mac.rollout(zero, first.resolved[:, -1], t[15:], closure, inputs={"a": a[11:], "wind": wind[11:, 15:]}, continued=True)
    np.testing.assert_array_equal(rest.resolved, expected[:, 15:])


def test_a_rollout_after_a_past_reads_its_inputs_too(tmp_path):
    y, _, a, wind = driven()
    path, t = tmp_path / "m.safetensors", DT * np.arange(31)
    closure = mac.fit(path, y, dt=DT, inputs={"a": a, "wind": wind}, history=1.0, **QUICK)
    features = np.concatenate([y, np.broadcast_to(a[:, None, None], y.shape), wind[..., None]], axis=2)
    closure.reset()
    closure.sequence(features[11:, :10])
    expected = mac.rollout(None, y[11:, 10], t[10:], closure, inputs={"a": a[11:], "wind": wind[11:, 10:]}, continued=True)
    run = mac.rollout(None, y[11:, 10], t[10:], closure, inputs={"a": a[11:], "wind": wind[11:]}, past=y[11:, :10])
    np.testing.assert_array_equal(run.resolved, expected.resolved)


@pytest.mark.parametrize(
    "inputs, message",
    [
        (None, "reads a, wind beside the state"),
        ({"a": 1.0}, 'give inputs = {"wind": ...}'),
        ({"a": 1.0, "wind": 0.0, "rain": 0.0}, "inputs has rain"),
        ({"a": np.ones(3), "wind": 0.0}, "a has shape (3,), expected one of (), (2,), (2, 4)"),
        ({"a": 1.0, "wind": np.zeros(4)}, "wind has shape (4,)"),
        ({"a": np.nan, "wind": 0.0}, "a holds a number that is not finite"),
        ({"a": "one", "wind": 0.0}, "a is no array of numbers but a str"),
        ([1, 2], "inputs is a list"),
        ({"a": 1.0, "wind": lambda t: np.zeros(5)}, "the function wind gave the shape"),
    ],
)
def test_a_rollout_says_what_is_wrong_with_its_inputs(tmp_path_factory, inputs, message):
    folder = tmp_path_factory.getbasetemp() / "driven"
    if not folder.exists():
        folder.mkdir()
        y, c, a, wind = driven()
        mac.fit(folder / "m.safetensors", y, c, DT, rhs=decay, inputs={"a": a, "wind": wind}, **{**QUICK, "steps": 1})
    with pytest.raises(mac.UsageError) as error:
        mac.rollout(decay, np.ones((2, 1)), DT * np.arange(4), mac.load(folder / "m.safetensors"), inputs=inputs)
    assert message in str(error.value)


def test_fit_says_what_is_wrong_with_inputs_and_fields(tmp_path):
    y, c, a, wind = driven(n=6)
    u, cu = ring(n=4, times=8)
    periodic = {"edges": "periodic"}
    wrong = [
        (y, dict(inputs={"a": a[:5]}), "a of train has shape (5,), expected (6,)"),
        (y, dict(inputs={"wind": wind.T}), "wind of train has shape (31, 6)"),
        (y, dict(inputs={"a": np.ones(6)}), "a is 1 in all of the training data"),
        (y, dict(inputs=["a"]), "inputs is a list"),
        (y, dict(inputs={"a": a}, validation=y), "validation has the inputs none, the training data a"),
        (y, dict(inputs={"x": a}, names=["x"]), "x"),
        (u, dict(local={"stencil": [-1, 1]}), "edges is None, expected what lies beyond"),
        (u, dict(local={"edges": "round"}), "edges is 'round'"),
        (u, dict(local=2), "local is 2, expected a dict"),
        (u, dict(local={**periodic, "of": "u"}), "local has an unknown of"),
        (u, dict(local=periodic, names=["u", "v"]), "2 names for one field"),
        (u, dict(local=periodic, names=["u 1"]), "needs a name of letters"),
        (u, dict(local={**periodic, "stencil": [1, 2]}), "stencil"),
        (u[..., 0], dict(local=periodic), "has shape"),
        ({"u": u, "v": u[:, :, :3]}, dict(local=periodic), "all the same"),
        ({"u": u}, dict(), "say in local what a site sees"),
        ({"u": u}, dict(local=periodic, targets=["w"]), "targets has 'w', expected numbers from 0 or names of fields: u"),
        (y, dict(targets=["w"], names=["x"]), "names of variables: x"),
        (y, dict(targets=[0, 0]), "each equation with a closure once"),
    ]
    for resolved, arguments, message in wrong:
        with pytest.raises(mac.UsageError) as error:
            mac.fit(tmp_path / "m.safetensors", resolved, dt=DT, **{**QUICK, **arguments})
        assert message in str(error.value), message


def test_a_field_is_closed_by_one_network_for_all_sites(tmp_path):
    u, c = ring()
    path, t = tmp_path / "m.safetensors", DT * np.arange(25)
    local = {"stencil": [-1, 1], "edges": "periodic"}
    closure = mac.fit(path, u, c, DT, rhs=diffusion, local=local, **{**QUICK, "steps": 400, "d_model": 6})
    assert closure.input_names == ["u[-1]", "u[0]", "u[1]"] and closure.output_names == ["C_u"]
    run = mac.rollout(diffusion, u[9:, 0], t, closure)
    alone = mac.rollout(diffusion, u[9:, 0], t)
    error = lambda found: np.linalg.norm(found.resolved - u[9:]) / np.linalg.norm(u[9:])
    assert error(run) < 0.2 * error(alone)  # .03 and .69 in one seed
    shifted = mac.rollout(diffusion, np.roll(u[9:, 0], 2, -1), t, closure)  # exactly, whatever the network is
    np.testing.assert_array_equal(shifted.resolved, np.roll(run.resolved, 2, -1))
    np.testing.assert_array_equal(shifted.closure, np.roll(run.closure, 2, -1))
    longer = mac.rollout(diffusion, np.tile(u[9:, 0], 2), t, closure)  # a ring of twice the length
    np.testing.assert_allclose(longer.resolved[:, :, :6], run.resolved, rtol=1e-12, atol=1e-12)


def test_a_field_without_equations_rolls_out_as_in_the_program(tmp_path):
    u, _ = ring()
    path = tmp_path / "m.safetensors"
    local = {"stencil": [-1, 1], "edges": "zero"}
    closure = mac.fit(path, {"u": u, "v": 2 * u}, dt=DT, local=local, targets=["u", "v"], **QUICK)
    mac.rollout_data(path, tmp_path / "m.data.h5", tmp_path / "r.h5", splits="validation", threads=1)
    expected = mac.read_rollout(tmp_path / "r.h5")["validation"].resolved
    start = np.concatenate([u, 2 * u], axis=2)[9:, 0]
    for hold in [None, "zero", "stage"]:
        if hold:
            mac.rollout_data(path, tmp_path / "m.data.h5", tmp_path / "r.h5", splits="validation", threads=1, hold=hold)
            expected = mac.read_rollout(tmp_path / "r.h5")["validation"].resolved
        run = mac.rollout(lambda t, y: 0 * y, start, DT * np.arange(25), closure, hold=hold)
        np.testing.assert_array_equal(run.resolved, expected)


def test_a_field_of_two_directions_and_an_input(tmp_path):
    u = np.random.default_rng(1).normal(size=(6, 12, 3, 4)).cumsum(axis=1)
    local = {"stencil": [[-1, 0], [0, 1]], "edges": ["periodic", "mirror"]}
    closure = mac.fit(tmp_path / "m.safetensors", u, dt=DT, names=["T"], local=local, inputs={"a": np.arange(6.0)}, **QUICK)
    assert closure.input_names == ["T[-1,0]", "T[-1,1]", "T[0,0]", "T[0,1]", "a"]
    run = mac.rollout(lambda t, y: 0 * y, u[5, 0].ravel(), [0, DT, 2 * DT], closure, inputs={"a": 5.0})
    assert run.resolved.shape == (3, 12) and run.closure.shape == (3, 12)


def test_the_search_takes_inputs_and_fields(tmp_path):
    y, c, a, wind = driven()
    u, cu = ring()
    quick = {**QUICK, "recipe": "auto"}
    closure = mac.fit(tmp_path / "m.safetensors", y, c, DT, rhs=decay, inputs={"a": a, "wind": wind}, **quick)
    assert len(json.loads(closure.metadata("search"))["trials"]) >= 4
    closure = mac.fit(tmp_path / "u.safetensors", u, cu, DT, rhs=diffusion, local={"edges": "periodic"}, **quick)
    assert len(json.loads(closure.metadata("search"))["trials"]) >= 4


def gappy(tmp_path, gaps, **options):
    rng = np.random.default_rng(3)
    t = DT * np.arange(60)
    x = np.sin(t + rng.uniform(0, 6, (12, 1))) + 0.1 * rng.normal(size=(12, 1))
    y = np.stack([x, np.cos(t + rng.uniform(0, 6, (12, 1)))], axis=-1)
    y[:, 20:23] = np.nan
    np.save(tmp_path / "y.npy", y)
    return mac.read(tmp_path / "y.npy", dt=DT, gaps=gaps, names=["x", "v"], **options)


def test_fit_keeps_the_masks_and_targets_of_a_data_set(tmp_path):
    data = gappy(tmp_path, "mask", targets=["v"])
    for rhs, name in [(None, "zero"), (decay, "function")]:
        closure = mac.fit(tmp_path / f"{name}.safetensors", data, rhs=rhs, **QUICK)
        assert closure.output_names == ["C_v"]
        written = mac.read_data(tmp_path / f"{name}.data.h5")
        for split in ["train", "validation"]:
            assert data[split].masked and written[split].masked
            np.testing.assert_array_equal(np.isnan(written[split].closure), np.isnan(data[split].closure))
            np.testing.assert_array_equal(np.isnan(written[split].closure_mean), np.isnan(data[split].closure_mean))
    np.testing.assert_array_equal(mac.read_data(tmp_path / "zero.data.h5")["train"].closure, data["train"].closure)


def test_what_is_filled_in_judges_no_rollout(tmp_path):
    data = gappy(tmp_path, "mask", test=0)
    experiment = mac.Experiment(
        data.experiment.text
        + '[[models]]\nname = "m"\nkind = "gru"\nd_model = 3\nblocks = 1\n[training]\nrecipe = "fast"\nsteps = 4\nbatch = 4\n'
        + 'loss = "rollout"\nrollout_steps = 3\nselect = "rollout"\nvalidate_every = 2\naugmentation = false\n'
    )
    errors = []
    for row in [None, 21, 30]:  # row 21 is in the gap, row 30 is not
        splits = {name: dict(vars(data[name])) for name in data}
        splits["validation"]["resolved"] = splits["validation"]["resolved"].copy()
        if row is not None:
            splits["validation"]["resolved"][:, row] += 1
        mac.write_data(tmp_path / "d.h5", experiment, splits)
        errors.append(mac.train(experiment, tmp_path / "d.h5", tmp_path / f"{row}.safetensors", threads=1).best_validation)
    assert errors[0] == errors[1] < errors[2] and np.isfinite(errors[0])


def test_derivatives_of_the_user_take_the_place_of_differences(tmp_path):
    y, c, _, _ = driven()
    calls = []

    def rhs(t, y):
        return np.sin(y) - y

    def vjp(t, y, v):
        calls.append("vjp")
        return (np.cos(y) - 1) * v

    def jvp(t, y, v):
        calls.append("jvp")
        return (np.cos(y) - 1) * v

    stages = {"stages": [{"loss": "rollout", "rollout_steps": 3}], "select": "loss", "batch": 4}
    files = {}
    for name, given in [("differences", {}), ("vjp", {"rhs_vjp": vjp}), ("jvp", {"rhs_jvp": jvp})]:
        calls.clear()
        closure = mac.fit(tmp_path / f"{name}.safetensors", y, c, DT, rhs=rhs, training=stages, **QUICK, **given)
        assert (len(calls) > 12) == (name != "differences") and set(calls) <= {name}
        closure.reset()
        files[name] = closure.sequence(y)
    np.testing.assert_array_equal(files["vjp"], files["jvp"])  # the same numbers, as there is one variable
    # Differences are right to 1e-9, and weights are float32.
    np.testing.assert_allclose(files["differences"], files["vjp"], rtol=1e-3, atol=1e-5)
    for given, message in [
        ({"rhs_vjp": lambda t, y, v: v}, "rhs_vjp is not the derivative of rhs"),
        ({"rhs_jvp": lambda t, y, v: v[:1]}, "rhs_jvp gave the shape"),
    ]:
        with pytest.raises(mac.UsageError, match=message):
            mac.fit(tmp_path / "m.safetensors", y, c, DT, rhs=rhs, training=stages, **QUICK, **given)
    with pytest.raises(mac.UsageError, match="derivatives of rhs, which is not given"):
        mac.fit(tmp_path / "m.safetensors", y, c, DT, rhs_vjp=vjp, **QUICK)


@pytest.mark.parametrize("gradient", ["identity", "network"])
def test_gradients_past_the_equations_ask_the_function_for_no_derivative(tmp_path, gradient):
    y, c, _, _ = driven()
    rows = []

    def rhs(t, y):
        rows.append(len(y))
        return -y

    training = {"stages": [{"loss": "rollout", "rollout_steps": 3, "window": 8, "rollout_gradient": gradient}], "select": "loss", "batch": 4}
    mac.fit(tmp_path / "m.safetensors", y, c, DT, rhs=rhs, training=training, **QUICK)
    starts = 4 * (8 - 3)
    losses = [count for count in rows if count not in (11, 12, 372, 341, 360)]
    assert starts in rows and 2 * starts not in losses  # differences of one variable would ask for two rows a chain
