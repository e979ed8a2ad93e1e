"""mac.evaluate and mac.report of runs that are arrays."""

import warnings

import numpy as np
import pytest

import mac

DT = 0.1
TIME = DT * np.arange(31)


def truth():
    phase = np.array([0.0, 1.0, 2.0])[:, None]
    return np.stack([np.sin(TIME + phase), np.cos(TIME + phase)], axis=-1)


def test_errors_are_those_of_the_arrays():
    y = truth()
    metrics = mac.evaluate({"mine": 1.1 * y, "none": 1.5 * y}, y, dt=DT, names=["x", "v"])
    cell = metrics["models"]["mine"]["test"]["intervals"]["[0,3]"]["resolved"]["x"]
    assert cell["mean"] == pytest.approx(0.1, rel=1e-5)  # six digits
    assert metrics["verdict"]["models"]["mine"]["sentence"].startswith("mine: 5 times better than no closure on test data")


def test_a_run_that_is_worse_is_warned_of():
    y = truth()
    with pytest.warns(mac.ClosureWarning, match="worse than no closure"):
        mac.evaluate({"mine": 2 * y, "none": 1.5 * y}, y, dt=DT)


def test_a_rollout_that_blows_up_is_in_no_mean():
    y = truth()
    run = 1.1 * y
    run[1, 20:] = np.nan
    with pytest.warns(mac.ClosureWarning, match="1 of 3 rollouts on test data blew up, the first at t = 2;"):
        metrics = mac.evaluate({"mine": run, "none": 1.5 * y}, y, dt=DT)
    assert metrics["models"]["mine"]["test"]["intervals"]["[0,3]"]["resolved"]["y1"]["mean"] == pytest.approx(0.1, rel=1e-5)


def test_rollouts_of_a_function_and_intervals():
    y = truth()
    rhs = lambda t, y: np.stack([y[..., 1], -y[..., 0]], axis=-1)
    run = mac.rollout(rhs, y[:, 0], TIME)
    metrics = mac.evaluate({"mine": run}, y, dt=DT, intervals=[(0, 1), (1, 3)])
    assert set(metrics["models"]["mine"]["test"]["intervals"]) == {"[0,1]", "[1,3]"}


def test_a_report_of_arrays(tmp_path):
    y = truth()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metrics = mac.report(tmp_path / "page.html", {"mine": 1.1 * y, "none": 1.5 * y}, y, dt=DT, names=["x", "v"])
    assert "5 times better than no closure" in (tmp_path / "page.html").read_text()
    assert metrics["verdict"]["models"]["mine"]["warnings"] == []


@pytest.mark.parametrize(
    "runs, options, sentence",
    [
        ({}, {"truth": truth(), "dt": DT}, "there are no runs to compare"),
        ({"mine": truth()}, {}, "runs that are arrays need the truth and dt beside them"),
        ({"mine": truth()}, {"truth": truth(), "dt": -1}, "dt is -1, expected the time between two saved times"),
        ({"mine": truth()[:, :5]}, {"truth": truth(), "dt": DT}, r"mine has shape \(3, 5, 2\), the truth \(3, 31, 2\)"),
        ({"mine": truth()}, {"truth": truth(), "dt": DT, "names": ["x"]}, "there are 1 names for 2 variables"),
        ({"mine": 3.0}, {"truth": truth(), "dt": DT}, r"mine has shape \(\), expected"),
    ],
)
def test_what_is_wrong_is_said(runs, options, sentence):
    with pytest.raises(mac.UsageError, match=sentence):
        mac.evaluate(runs, **options)
