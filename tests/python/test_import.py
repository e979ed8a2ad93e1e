"""mac.read and mac import: files of other programs, and what can be wrong with them."""

import os
import re
import struct
import subprocess
import warnings
import zipfile

import h5py
import numpy as np
import pytest

import mac
from mac.data import split_arrays

DT = 0.05
TIME = DT * np.arange(120)


def oscillators(count=10, times=120, seed=0):
    """(trajectories, times, 2): x and v of oscillators of different frequencies."""
    rng = np.random.default_rng(seed)
    frequency, phase = rng.uniform(0.8, 1.2, (count, 1)), rng.uniform(0, 6, (count, 1))
    t = DT * np.arange(times)
    angle = frequency * t + phase
    return np.stack([np.sin(angle), frequency * np.cos(angle)], axis=-1)


def table(path, columns, header, separator=","):
    rows = [separator.join("" if np.isnan(v) else f"{v:.17g}" for v in row) for row in zip(*columns)]
    path.write_text("\n".join(([separator.join(header)] if header else []) + rows) + "\n")
    return path


def netcdf4(path, y, packed=False):
    """As the NetCDF library writes it: dimensions are scales to which variables refer."""
    with h5py.File(path, "w") as file:
        for name, values in [("time", TIME[: y.shape[1]]), ("member", np.arange(len(y)))]:
            file[name] = values
            file[name].make_scale(name)
        file["time"].attrs["units"] = "s"
        for k, name in enumerate("xv"):
            stored = y[:, :, k].T
            file[name] = np.where(np.isnan(stored), -32768, np.round(stored / 1e-4)).astype("i2") if packed else stored
            file[name].dims[0].attach_scale(file["time"])
            file[name].dims[1].attach_scale(file["member"])
            file[name].attrs["units"] = ["m", "m/s"][k]
            if packed:
                file[name].attrs["_FillValue"] = np.int16(-32768)
                file[name].attrs["scale_factor"] = 1e-4
    return path


def classic_netcdf(path, y):
    """Version 1 of the format: time is the record dimension, x and v (time, member) lie interleaved."""

    def text(name):
        return struct.pack(">i", len(name)) + name.encode().ljust((len(name) + 3) // 4 * 4, b"\0")

    count, times = y.shape[:2]
    variables = [("time", [0], 8, TIME[:times, None]), ("x", [0, 1], 8 * count, y[..., 0].T), ("v", [0, 1], 8 * count, y[..., 1].T)]

    def header(offsets):
        out = b"CDF\x01" + struct.pack(">i", times) + struct.pack(">ii", 10, 2)
        out += text("time") + struct.pack(">i", 0) + text("member") + struct.pack(">i", count)
        out += struct.pack(">ii", 0, 0) + struct.pack(">ii", 11, len(variables))
        for (name, dims, size, _), offset in zip(variables, offsets):
            out += text(name) + struct.pack(f">i{len(dims)}i", len(dims), *dims)
            out += struct.pack(">ii", 12, 1) + text("units") + struct.pack(">i", 2) + text("m" if name == "x" else "s")
            out += struct.pack(">iii", 6, size, offset)
        return out

    begin = len(header([0, 0, 0]))
    body = b"".join(values[t].astype(">f8").tobytes() for t in range(times) for *_, values in variables)
    path.write_bytes(header([begin, begin + 8, begin + 8 + 8 * count]) + body)
    return path


def written(data, count=10):
    """The trajectories of all splits, in the order of the files."""
    rows = [(label, y) for split in data.values() for label, y in zip(split.labels, split.resolved)]
    order = sorted(rows, key=lambda row: int(re.findall(r"(?:trajectory |run)(\d+)", row[0])[-1]))
    return np.array([y for _, y in order])


def test_numbers_come_back_from_every_kind_of_file(tmp_path):
    y = oscillators()
    np.save(tmp_path / "y.npy", y)
    np.save(tmp_path / "fortran.npy", np.asfortranarray(y))
    np.save(tmp_path / "big.npy", y.astype(">f8"))
    np.savez(tmp_path / "y.npz", y=y, t=TIME)
    np.savez_compressed(tmp_path / "packed.npz", y=y, t=TIME)
    netcdf4(tmp_path / "y.nc", y)
    classic_netcdf(tmp_path / "classic.nc", y)
    with h5py.File(tmp_path / "runs.h5", "w") as file:
        for i in range(len(y)):
            file[f"run{i + 1}/state"] = y[i]
            file[f"run{i + 1}/t"] = TIME
    run = np.repeat(np.arange(len(y)), len(TIME))
    table(tmp_path / "y.csv", [run, np.tile(TIME, len(y)), y[..., 0].ravel(), y[..., 1].ravel()], ["run", "t [s]", "x [m]", "v (m/s)"], ";")
    for name, options in {
        "y.npy": {"dt": DT},
        "fortran.npy": {"dt": DT},
        "big.npy": {"dt": DT},
        "y.npz": {},
        "packed.npz": {},
        "y.nc": {"variables": ["x", "v"]},
        "classic.nc": {"variables": ["x", "v"]},
        "runs.h5": {"group": "run*"},
        "y.csv": {"trajectory": "run"},
    }.items():
        data = mac.read(tmp_path / name, **options)
        assert data.dt == DT, name
        assert np.array_equal(written(data), y), name
        assert [len(data[split].resolved) for split in ("train", "validation", "test")] == [8, 1, 1], name


def test_units_and_names_are_kept(tmp_path):
    mac.read(netcdf4(tmp_path / "y.nc", oscillators()), tmp_path / "data.h5", variables=["v", "x"])
    with h5py.File(tmp_path / "data.h5") as file:
        assert list(file["train/resolved"].attrs["variables"].astype(str)) == ["v", "x"]
        assert list(file["train/resolved"].attrs["units"].astype(str)) == ["m/s", "m"]
        assert file["train/time"].attrs["units"].decode() == "s"
    data = mac.read(tmp_path / "y.nc", variables=["v", "x"], names=["speed", "place"])
    assert data.names == ["speed", "place"]


def test_packed_numbers_and_fill_values(tmp_path):
    y = oscillators()
    y[3, 40] = np.nan
    data = mac.read(netcdf4(tmp_path / "y.nc", y, packed=True), variables=["x", "v"], gaps="fill")
    assert np.allclose(written(data)[0], y[0], atol=1e-4)
    assert np.all(np.isfinite(written(data)))


@pytest.mark.parametrize("order", [2, 4])
def test_the_closure_is_that_of_mac_fit(tmp_path, capfd, order):
    from mac.tendency import difference_closure

    y = oscillators()
    np.save(tmp_path / "y.npy", y)
    data = mac.read(tmp_path / "y.npy", dt=DT, order=order, test=0, validation=0, quiet=False)
    expected = difference_closure(data["train"].resolved, DT, lambda t, y: np.zeros_like(y), [0, 1], order)
    assert np.allclose(data["train"].closure, expected.closure, rtol=0, atol=1e-12)
    assert np.allclose(data["train"].closure_mean, expected.mean, rtol=0, atol=1e-12)
    word = {2: "second", 4: "fourth"}[order]
    assert f"differences of {word} order, with an error of about {100 * expected.error:.2g} %" in capfd.readouterr().err


def test_the_closure_of_a_given_system(tmp_path):
    study = tmp_path / "study.toml"
    study.write_text(
        '[system]\nname = "lorenz96"\n[data]\ndt = 0.005\nstride = 2\n[data.train]\ntrajectories = 8\nhorizon = 1.0\n'
    )
    mac.generate(study, tmp_path / "full.h5")
    made = mac.read_data(tmp_path / "full.h5")
    np.save(tmp_path / "y.npy", made["train"].resolved)
    data = mac.read(tmp_path / "y.npy", dt=made.dt, system=study, test=0, validation=0.2)
    order = [int(re.findall(r"trajectory (\d+)", label)[0]) - 1 for label in data["train"].labels]
    truth = made["train"].closure[order]
    error = np.linalg.norm(data["train"].closure - truth) / np.linalg.norm(truth)
    assert error < 3e-3  # differences of a step of 0.01, one-sided at the ends
    assert data.experiment.system.name == "lorenz96"


def test_a_given_closure_is_taken_as_it_is(tmp_path):
    y = oscillators()
    np.savez(tmp_path / "y.npz", y=y, c=y[..., :1] ** 2, t=TIME)
    data = mac.read(tmp_path / "y.npz", variables="y", closure="c", targets="y2")
    assert np.array_equal(data["train"].closure[..., 0], data["train"].resolved[..., 0] ** 2)
    c, mean = data["train"].closure, data["train"].closure_mean
    cubic = split_arrays("train", data["train"].resolved, c)["closure_mean"]
    assert np.allclose(mean[:, 1:-1], cubic[:, 1:-1], rtol=0, atol=1e-14)  # rounding: the same sum in another order
    assert np.allclose(mean[:, [0, -1]], (c[:, [0, -2]] + c[:, [1, -1]]) / 2, rtol=0, atol=1e-14)  # no four around them


def test_splits_are_seeded_and_by_trajectory_or_time(tmp_path):
    np.save(tmp_path / "y.npy", oscillators(40))
    labels = lambda **options: mac.read(tmp_path / "y.npy", dt=DT, **options)["test"].labels
    assert labels(seed=1) == labels(seed=1) != labels(seed=2)
    data = mac.read(tmp_path / "y.npy", dt=DT, split="time", validation=0.25, test=0.25)
    assert [split.resolved.shape[:2] for split in data.values()] == [(40, 60), (40, 30), (40, 30)]
    y = oscillators(40)
    assert np.array_equal(data["test"].resolved, y[:, 90:])
    shared = set(mac.read(tmp_path / "y.npy", dt=DT)["train"].labels) & set(labels())
    assert not shared


def test_gaps_split_fill_or_mask(tmp_path):
    y = oscillators()
    holes = y.copy()
    holes[4, 50:53] = np.nan
    np.save(tmp_path / "y.npy", holes)
    read = lambda **options: mac.read(tmp_path / "y.npy", dt=DT, test=0, length=2.0, **options)
    cut = read(gaps="split")
    pieces = [label for split in cut.values() for label in split.labels if "trajectory 5," in label]
    assert pieces == ["%s, trajectory 5, from 0" % (tmp_path / "y.npy"), "%s, trajectory 5, from 2.65" % (tmp_path / "y.npy")]
    filled = mac.read(tmp_path / "y.npy", dt=DT, test=0, gaps="fill")
    assert np.max(np.abs(written(filled) - y)) < 1e-4  # a cubic over four steps of 0.05
    masked = mac.read(tmp_path / "y.npy", dt=DT, test=0, validation=0, gaps="mask")["train"]
    unknown = np.argwhere(np.isnan(masked.closure[4, :, 0])).ravel()
    assert list(unknown) == list(range(48, 55))  # the rows, and those whose difference reaches there
    assert np.all(np.isfinite(masked.resolved)) and np.isfinite(masked.closure[:4]).all()


def test_a_masked_closure_counts_in_no_loss_and_no_metric(tmp_path):
    """A single NaN that counted would be the loss, and the mean of a table."""
    y = oscillators()
    holes = y.copy()
    holes[2:6, 50:53] = np.nan
    np.save(tmp_path / "y.npy", holes)
    mac.read(tmp_path / "y.npy", tmp_path / "data.h5", dt=DT, gaps="mask", seed=3)
    study = mac.Experiment(
        mac.read_data(tmp_path / "data.h5").experiment.text
        + '[[models]]\nname = "closure"\nkind = "gru"\nd_model = 4\nblocks = 1\n'
        + '[training]\nrecipe = "fast"\nsteps = 20\nselect = "loss"\nvalidate_every = 10\naugmentation = false\n'
    )
    result = mac.train(study, tmp_path / "data.h5", tmp_path / "m.safetensors")
    assert np.isfinite(result.best_validation)
    mac.rollout_data(tmp_path / "m.safetensors", tmp_path / "data.h5", tmp_path / "r.h5")
    metrics = mac.evaluate(tmp_path / "r.h5")
    assert "NaN" not in str(metrics["models"]) and "nan" not in str(metrics["models"])
    with pytest.raises(mac.UsageError, match="not known everywhere"):
        mac.rollout_data("exact", tmp_path / "data.h5", tmp_path / "e.h5", splits="train")


def test_uneven_times_are_resampled_with_an_error_estimate(tmp_path, capfd):
    rng = np.random.default_rng(1)
    for i in range(5):
        t = np.cumsum(rng.uniform(0.03, 0.07, 400))
        table(tmp_path / f"{i}.csv", [t, np.sin(t + i)], ["t", "x"])
    data = mac.read([tmp_path / f"{i}.csv" for i in range(5)], resample=0.05, quiet=False)
    note = next(line for line in capfd.readouterr().err.splitlines() if "resampled" in line)
    stated = float(re.findall(r"about ([\d.e-]+) %", note)[0]) / 100
    split = data["train"]
    first = [float(re.findall(r"from ([\d.]+)", label)[0]) for label in split.labels]
    shift = [int(os.path.basename(label.split(",")[0])[0]) for label in split.labels]
    truth = np.sin(np.array(first)[:, None] + split.time + np.array(shift)[:, None])
    error = np.sqrt(np.mean((split.resolved[..., 0] - truth) ** 2)) / np.std(truth)
    assert stated / 5 < error < 5 * stated


def test_copies_stay_in_one_split(tmp_path):
    y = oscillators(12)
    y[7] = y[3]
    np.save(tmp_path / "y.npy", y)
    for seed in range(6):
        with pytest.warns(mac.DataWarning, match="trajectory 4 and .*trajectory 8 share states"):
            data = mac.read(tmp_path / "y.npy", dt=DT, seed=seed, validation=0.3, test=0.3)
        homes = [name for name, split in data.items() for label in split.labels if re.search(r"trajectory (4|8),", label)]
        assert len(homes) == 2 and homes[0] == homes[1]


@pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="the address sanitizer takes terabytes of addresses")
@pytest.mark.parametrize("kind", ["hdf5", "netcdf4"])
def test_memory_is_bounded(tmp_path, kind):
    """A file many times as large as the blocks."""
    rows = 800_000
    with h5py.File(tmp_path / "long", "w") as file:
        growing = {"maxshape": (None, 8), "chunks": (1000, 8)} if kind == "netcdf4" else {}  # an unlimited dimension
        x = file.create_dataset("x", (rows, 8), **growing)
        t = file.create_dataset("time", (rows,), "f4")  # in which a step late in the file has two digits
        for first in range(0, rows, 100_000):
            time = DT * np.arange(first, first + 100_000)
            t[first : first + 100_000] = time
            x[first : first + 100_000] = np.sin(np.outer(time, np.arange(1, 9) / 8)).astype("f4")
        if kind == "netcdf4":  # dimensions are scales to which the variable refers
            file["mode"] = np.arange(8)
            for axis, name in enumerate(["time", "mode"]):
                file[name].make_scale(name)
                x.dims[axis].attach_scale(file[name])
    command = f"{os.environ['MAC_PROGRAM']} import {tmp_path}/long --variables x --split time --quiet --threads 1 -o {tmp_path}/data.h5"
    limited = subprocess.run(["bash", "-c", f"ulimit -v 150000 && exec {command}"], capture_output=True, text=True)  # kB
    assert limited.returncode == 0, limited.stderr  # what is written are 154 MB of numbers


# ---- what is wrong with data, and its sentence

LONG = oscillators(10)


def npy(path, y):
    np.save(path / "y.npy", y)
    return [path / "y.npy"]


def raw(name, content):
    def make(path):
        (path / name).write_bytes(content)
        return [path / name]

    return make


def csv(text, name="y.csv"):
    return raw(name, text.encode())


def array(change):
    def make(path):
        y = oscillators(10)
        changed = change(y)
        return npy(path, y if changed is None else changed)

    return make


def assign(index, value):
    def change(y):
        y[index] = value

    return array(change)


def hdf5(**datasets):
    def make(path):
        with h5py.File(path / "y.h5", "w") as file:
            for name, values in datasets.items():
                file[name.replace("__", "/")] = values
        return [path / "y.h5"]

    return make


def npz(**arrays):
    def make(path):
        np.savez(path / "y.npz", **arrays)
        return [path / "y.npz"]

    return make


def cut_npy(path):
    file = npy(path, LONG)[0]
    file.write_bytes(file.read_bytes()[:-100])
    return [file]


def damaged_npz(path):
    np.savez_compressed(path / "y.npz", y=LONG)
    content = bytearray((path / "y.npz").read_bytes())
    content[2000:2400] = bytes(400)
    (path / "y.npz").write_bytes(content)
    return [path / "y.npz"]


def cut_netcdf(path):
    classic_netcdf(path / "y.nc", oscillators())
    (path / "y.nc").write_bytes((path / "y.nc").read_bytes()[:-8])
    return [path / "y.nc"]


def odd_width(path):
    np.save(path / "y.npy", LONG)
    content = (path / "y.npy").read_bytes()
    (path / "y.npy").write_bytes(content.replace(b"'descr': '<f8'", b"'descr':'<f8x'"))
    return [path / "y.npy"]


def odd_zip(path):
    with zipfile.ZipFile(path / "y.zip", "w") as archive:
        archive.writestr("readme.txt", "no arrays")
    return [path / "y.zip"]


def two_files(first, second):
    def make(path):
        np.save(path / "a.npy", first)
        np.save(path / "b.npy", second)
        return [path / "a.npy", path / "b.npy"]

    return make


def lines(times, values, header="t,x"):
    return csv(header + "\n" + "".join(f"{t:.10g},{v:.10g}\n" for t, v in zip(times, values)))


def uneven(path):
    t = np.cumsum(np.random.default_rng(0).uniform(0.01, 0.1, 100))
    return lines(t, np.sin(t))(path)


def two_steps(path):
    for name, step in [("a.csv", 0.1), ("b.csv", 0.2)]:
        t = step * np.arange(60)
        table(path / name, [t, np.sin(t)], ["t", "x"])
    return [path / "a.csv", path / "b.csv"]


def leaking(path):
    y = oscillators(4)
    np.save(path / "a.npy", y)
    np.save(path / "b.npy", y[2:3, 20:])
    return [path / "a.npy"]


TRICKY = [
    # name, files, options, the exception or None for a warning, the sentence
    ("empty file", raw("y.csv", b""), {}, mac.Error, "y.csv: is empty"),
    ("a file that is not there", lambda path: [path / "none.csv"], {}, mac.Error, "none.csv: .*"),
    ("a folder", lambda path: [path], {}, mac.Error, "is a folder"),
    ("Parquet", raw("y.parquet", b"PAR1\x15\x04\x15\x10"), {}, mac.UsageError, "is a Parquet file, which is not read; save it as"),
    ("gzip", raw("y.csv.gz", b"\x1f\x8b\x08\x00\x00\x00"), {}, mac.UsageError, "is compressed by gzip; unpack it first"),
    ("pickle", raw("y.pkl", b"\x80\x04\x95\x10\x00"), {}, mac.UsageError, "is a pickle, which is not read"),
    ("bytes of nothing", raw("y.bin", bytes(range(200, 256))), {}, mac.UsageError, "expected NumPy .*, HDF5, NetCDF or CSV"),
    ("a zip without arrays", odd_zip, {}, mac.Error, "holds no array of numbers; it has readme.txt"),
    ("an array cut short", cut_npy, {"dt": DT}, mac.Error, r"announces the shape .*, for which the file is too short"),
    ("damaged compression", damaged_npz, {"dt": DT}, mac.Error, "y.npz: y: .*"),
    ("complex numbers", array(lambda y: y + 1j), {"dt": DT}, mac.Error, "holds complex numbers; save their real and imaginary parts"),
    ("text in an array", array(lambda y: y.astype("U8")), {"dt": DT}, mac.Error, "holds elements of type <U8, expected real numbers"),
    ("records", array(lambda y: np.zeros(9, dtype=[("a", "f8"), ("b", "f8")])), {"dt": DT}, mac.Error, "is an array of records"),
    ("an empty array", array(lambda y: y[:, :0]), {"dt": DT}, mac.Error, r"y is empty, its shape is \(10, 0, 2\)"),
    ("four axes", array(lambda y: y.reshape(10, 120, 2, 1)), {"dt": DT}, mac.UsageError, r"at most three axes: trajectory, time, variable"),
    ("damaged HDF5", raw("y.h5", b"\x89HDF\r\n\x1a\n" + bytes(100)), {"dt": DT}, mac.Error, "is a damaged HDF5 file"),
    ("HDF5 without numbers", hdf5(note=np.bytes_("hello")), {"dt": DT}, mac.Error, "holds no array of numbers; it has note"),
    ("a damaged NetCDF", raw("y.nc", b"CDF\x01\x00\x00\x00\x05\x00\x00\x00\x63\x00\x00\x00\x01"), {}, mac.Error, "is a damaged NetCDF file"),
    ("a NetCDF cut short", cut_netcdf, {"variables": ["x", "v"]}, mac.Error, r"y.nc: announces v with the shape .*, for which the file is too short"),
    ("numbers of no width", odd_width, {"dt": DT}, mac.Error, "holds elements of type <f8x"),
    ("a misspelt variable", npz(speed=LONG[..., 0], place=LONG[..., 1], t=TIME), {"variables": ["sped"]}, mac.UsageError,
     'has no variable sped; there are speed, place, t; did you mean "speed"?'),
    ("two arrays and no choice", npz(a=LONG, b=LONG, t=TIME), {}, mac.UsageError, "holds the arrays a, b; say with --variables"),
    ("no times and no step", array(lambda y: y), {}, mac.UsageError, "name them with --time, or say the step with --dt"),
    ("another step than the times have", npz(y=LONG, t=TIME), {"dt": 0.1, "time": "t"}, mac.UsageError, "the times go in steps of 0.05"),
    ("times of another length", npz(y=LONG, t=TIME[:-1]), {}, mac.Error, r"t has the shape \(119\), but y has 120 times"),
    ("variables of different lengths", npz(x=LONG[..., 0], v=LONG[:, :50, 1], t=TIME), {"variables": ["x", "v"]}, mac.Error,
     "have not the same trajectories and times"),
    ("swapped axes", array(lambda y: y.transpose(1, 0, 2)), {"dt": DT}, mac.UsageError,
     "as if the axes were swapped: say --axes time,trajectory,variable"),
    ("variables before times", array(lambda y: y.transpose(0, 2, 1)), {"dt": DT}, mac.UsageError,
     "as if the axes were swapped: say --axes trajectory,variable,time"),
    ("an unknown axis", array(lambda y: y), {"dt": DT, "axes": ["run", "time", "variable"]}, mac.UsageError,
     '"run" is none of trajectory, time, variable'),
    ("two time axes", array(lambda y: y), {"dt": DT, "axes": ["time", "time", "variable"]}, mac.UsageError, "two axes of y .* would be the time"),
    ("a word in a table", csv("t,x\n0,1\n0.1,oops\n"), {}, mac.Error, 'y.csv:3: "oops" in column x is no number'),
    ("decimal commas", csv("t;x\n0;1,5\n0,1;1,6\n"), {}, mac.Error, 'y.csv:2: "1,5" in column x is no number; write decimals with a point'),
    ("a row too short", csv("t,x,v\n0,1,2\n0.1,1\n"), {}, mac.Error, "y.csv:3: has 2 fields, expected 3"),
    ("two columns of one name", csv("t,x,x\n0,1,2\n"), {}, mac.Error, "has two columns called x"),
    ("a header and no rows", csv("t,x\n"), {}, mac.Error, "has no line of numbers"),
    ("times that go back", lines([0, 0.1, 0.2, 0.15, 0.3, 0.4], range(6)), {}, mac.Error, "row 4: the time 0.15 comes after 0.2"),
    ("a time twice", lines([0, 0.1, 0.1, 0.2, 0.3], range(5)), {}, mac.Error, "row 3: the time 0.1 comes after 0.1"),
    ("uneven times", uneven, {}, mac.UsageError, "times are uneven: .* --resample"),
    ("files of two steps", two_steps, {}, mac.UsageError, "b.csv: is saved every 0.2, .*a.csv every 0.1; --resample 0.1"),
    ("missing rows", assign((3, slice(40, 44)), np.nan), {"dt": DT}, mac.UsageError,
     "1 gap, the first of 0.25 at t = 1.95 in .*trajectory 4: --gaps split"),
    ("a blow-up", assign((3, slice(60, 62), 0), np.inf), {"dt": DT}, mac.UsageError, "1 gap"),
    ("nothing but missing values", array(lambda y: y * np.nan), {"dt": DT}, mac.Error, "every row has a missing value"),
    ("trajectories whose rows are scattered", csv("run,t,x\n1,0,1\n2,0,1\n1,0.1,2\n"), {"trajectory": "run"}, mac.Error,
     "the rows of run 1 do not lie together: it comes back in row 3"),
    ("other variables in another file", two_files(LONG, LONG[..., :1]), {"dt": DT}, mac.Error, "b.npy: has the variables"),
    ("one trajectory", array(lambda y: y[0]), {"dt": DT}, mac.UsageError, "1 trajectories leave none for training .*: say --split time"),
    ("a length that no trajectory has", array(lambda y: y), {"dt": DT, "length": 50.0}, mac.UsageError, "--length 50: the longest trajectory of train is 5.95"),
    ("an order that there is not", array(lambda y: y), {"dt": DT, "order": 3}, mac.UsageError, "order: is 3, but differences are of order 2 or 4"),
    ("trajectories too short for differences", array(lambda y: y[:, :4]), {"dt": DT}, mac.UsageError, "too short for differences of fourth order, which need 5"),
    ("closure of other size", npz(y=LONG, c=LONG[..., :1], t=TIME), {"variables": "y", "closure": "c"}, mac.UsageError,
     "closure: there are 1 components for 2 equations: say with --targets"),
    ("a target that is no variable", array(lambda y: y), {"dt": DT, "targets": ["z"]}, mac.UsageError, '"z" is no resolved variable'),
    ("test data that were learned", leaking, {"dt": DT, "test_files": "b.npy"}, mac.UsageError,
     "share states, but were given for different splits: what is tested would have been learned"),
    ("groups that are not there", hdf5(a__x=TIME), {"dt": DT, "group": "run*"}, mac.UsageError, r"no group matches run\*; it has a"),
    ("outliers that are refused", assign((3, 40, 0), 1e6), {"dt": DT, "outliers": "refuse"}, mac.UsageError,
     r"y1 has 1 outlier, the first is 1e\+06 in .*trajectory 4, row 41"),
    ("outliers", assign((3, 40, 0), 1e6), {"dt": DT}, None, r"y1 has 1 outlier, the first is 1e\+06 in .*trajectory 4, row 41"),
    ("a mark for missing values", assign(([2, 5], [30, 70], 1), -9999), {"dt": DT}, None, "if that marks missing values, say --missing=-9999"),
    ("a constant", assign((slice(None), slice(None), 1), 3), {"dt": DT}, None, "y2 is 3 everywhere: a constant says nothing"),
    ("a variable twice", array(lambda y: np.concatenate([y, y[..., :1]], axis=2)), {"dt": DT}, None, "y1 and y3 are the same numbers everywhere"),
    ("a trajectory twice", array(lambda y: np.concatenate([y, y[:1]])), {"dt": DT}, None, "trajectory 1 and .*trajectory 11 share states"),
    ("noise", array(lambda y: y + 0.05 * np.random.default_rng(0).standard_normal(y.shape)), {"dt": DT}, None,
     "the closure is computed with an error of about .* %: the step 0.05 is long for these data, or they are noisy"),
    ("equations without a closure", array(lambda y: y), {"dt": DT, "targets": "y2"}, None, "lies in equations without a closure"),
]


@pytest.mark.parametrize("files, options, kind, sentence", [row[1:] for row in TRICKY], ids=[row[0] for row in TRICKY])
def test_what_is_wrong_is_said(tmp_path, monkeypatch, files, options, kind, sentence):
    monkeypatch.chdir(tmp_path)
    made = files(tmp_path)
    if kind is None:
        with pytest.warns(mac.DataWarning, match=sentence):
            mac.read(made, tmp_path / "data.h5", **options)
        assert mac.read_data(tmp_path / "data.h5")["train"].resolved.size > 0
        return
    with warnings.catch_warnings(record=True), pytest.raises(mac.Error, match=sentence) as caught:
        mac.read(made, tmp_path / "data.h5", **options)
    assert caught.type is kind
    assert len(str(caught.value).splitlines()) == 1
    assert not (tmp_path / "data.h5").exists()


def test_there_are_forty():
    assert len({row[0] for row in TRICKY}) >= 40


def command(*arguments):
    result = subprocess.run([os.environ["MAC_PROGRAM"], "import", *map(str, arguments)], capture_output=True, text=True)
    return result.returncode, result.stdout, result.stderr


def test_the_command(tmp_path):
    y = oscillators()
    np.save(tmp_path / "y.npy", y)
    (tmp_path / "map.toml").write_text('dt = 0.05\nnames = ["x", "v"]\nsplit = "time"\n')
    code, out, err = command(tmp_path / "y.npy", "--map", tmp_path / "map.toml", "--split", "trajectory", "-o", tmp_path / "a.h5",
                             "--study", tmp_path / "study.toml")
    assert code == 0, err
    assert "x, v, closure of C_x, C_v, step 0.05" in out and "train      8 trajectories of 120 times" in out
    assert mac.Experiment.read(tmp_path / "study.toml").models
    (tmp_path / "map.toml").write_text("dtt = 0.05\n")
    code, _, err = command(tmp_path / "y.npy", "--map", tmp_path / "map.toml", "-o", tmp_path / "b.h5")
    assert code == 2 and 'unknown key' in err and "dt" in err
    code, _, err = command(tmp_path / "y.npy", "--gaps", "ignore", "-o", tmp_path / "b.h5")
    assert code == 2 and "ignore not in" in err
    code, _, err = command(tmp_path / "y.npy", "--dt", "0.05", "-o", tmp_path / "y.npy")
    assert code == 2 and "would overwrite" in err
    assert not (tmp_path / "b.h5").exists()


@pytest.mark.parametrize("step", [".05", "5e-2", "00.05", "+0.05"])
def test_the_command_takes_numbers_as_people_write_them(tmp_path, step):
    np.save(tmp_path / "y.npy", oscillators())
    code, out, err = command(tmp_path / "y.npy", "--dt", step, "--seed", "007", "-o", tmp_path / "a.h5")
    assert code == 0, err
    assert "step 0.05" in out


def test_parameters_and_forcing_are_inputs_not_unknowns(tmp_path):
    y = oscillators()
    stiffness = np.linspace(1, 2, len(y))
    wind = np.cos(TIME)[None, :] * stiffness[:, None]
    with h5py.File(tmp_path / "runs.h5", "w") as file:
        file["time"], file["x"], file["v"] = TIME, y[:, :, 0], y[:, :, 1]
        file["stiffness"], file["wind"] = stiffness, wind
    data = mac.read(
        tmp_path / "runs.h5", variables=["x", "v"], parameters="stiffness", forcing="wind", axes=["trajectory", "time"]
    )
    assert (data.names, data.parameters, data.forcing) == (["x", "v"], ["stiffness"], ["wind"])
    seen = []
    for split in data.values():
        assert split.resolved.shape[2] == 2 and split.forcing.shape == split.resolved.shape[:2] + (1,)
        for i, k in enumerate(split.parameters[:, 0]):
            row = int(np.argmin(abs(stiffness - k)))
            seen.append(row)
            assert k == stiffness[row]
            np.testing.assert_array_equal(split.resolved[i], y[row])
            np.testing.assert_array_equal(split.forcing[i, :, 0], wind[row])
    assert sorted(seen) == list(range(len(y)))


def test_parameters_of_a_table_are_columns_that_do_not_change(tmp_path):
    y, run = oscillators(5), np.repeat(np.arange(5), 120)
    columns = [run, np.tile(TIME, 5), y[:, :, 0].ravel(), y[:, :, 1].ravel(), 10.0 * run]
    path = table(tmp_path / "runs.csv", columns, ["run", "t", "x", "v", "depth"])
    data = mac.read(path, trajectory="run", parameters="depth", test=0.2, validation=0.2)
    assert data.names == ["x", "v"]
    assert sorted(np.concatenate([s.parameters[:, 0] for s in data.values()])) == [0, 10, 20, 30, 40]
    columns[4] = columns[4] + (np.arange(600) == 130)
    path = table(tmp_path / "runs.csv", columns, ["run", "t", "x", "v", "depth"])
    with pytest.raises(mac.UsageError, match="trajectory 2, row 11: depth goes from 10 to 11: a parameter is constant"):
        mac.read(path, trajectory="run", parameters="depth", test=0.2, validation=0.2)
