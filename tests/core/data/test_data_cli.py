import json
import shutil
import sys

import numpy as np
import pytest
from data_fakes import TASK, FakeHost, make_episode
from test_data_robomimic import FLIPPED, LIFT, SHORT

from outrider.core.cli import app
from outrider.core.cli import demos as verb
from outrider.core.data.store import open_store, write_store


@pytest.fixture
def outrider(monkeypatch, capsys):
    """Runs the command line and returns exit code, standard output and standard error."""
    monkeypatch.setattr(verb, "host_of", lambda ctx: FakeHost())

    def call(*arguments):
        code = app.run([str(a) for a in ("demos", *arguments)])
        return code, *capsys.readouterr()

    return call


def test_info_of_a_sound_file(outrider):
    code, out, _ = outrider("info", LIFT)
    assert code == 0
    for text in ("robosuite/lift", "20 Hz", "5", "207 (10.3 s)", "41 to 43 steps", "100% (5 of 5)"):
        assert text in out
    assert "robot0_eef_quat[3]" in out
    assert "note: env_args have no control_freq" in out
    assert "warning: action: delta_rotation[0]: is 0 in every step" in out
    assert "0 errors, 3 warnings" in out


def test_info_as_json(outrider):
    code, out, _ = outrider("info", FLIPPED, "--json")
    value = json.loads(out)
    assert code == 0
    assert value["errors"] == 0
    assert value["facts"]["success"] == {"value": 1.0, "successes": 5, "n": 5}
    flip = next(f for f in value["findings"] if f["check"] == "quaternion")
    assert (flip["episode"], flip["step"]) == ("demo_1", 20)


def test_info_exits_with_1_for_errors(outrider):
    code, out, _ = outrider("info", SHORT)
    assert code == 1
    assert "error: episode demo_2, obs/robot0_eef_pos: has 40 rows, actions has 41" in out


def test_info_shows_errors_first_and_counts_the_rest(outrider, tmp_path):
    items = [make_episode(12, seed) for seed in range(60)]
    for item in items:
        item.observation[4:, 2:] *= -1
    items[59].action[3, 0] = np.nan
    write_store(tmp_path / "s", TASK, items, {})
    code, out, _ = outrider("info", tmp_path / "s")
    assert code == 1
    lines = out.splitlines()
    first = next(line for line in lines if line.startswith(("error", "warning")))
    assert first.startswith("error: episode 59, action: velocity[0], step 3: is nan")
    assert "and 21 more; --json lists all" in lines


@pytest.mark.parametrize("name", ["none", "file.txt"])
def test_info_exits_with_2_for_what_cannot_be_read(outrider, tmp_path, name):
    (tmp_path / "file.txt").write_text("x")
    code, out, err = outrider("info", tmp_path / name)
    assert (code, out) == (2, "")
    assert err.startswith("outrider: ") and err.count("\n") == 1
    assert str(tmp_path / name) in err


def test_convert(outrider, tmp_path):
    code, out, _ = outrider("convert", LIFT, tmp_path / "s", "--json")
    store = open_store(tmp_path / "s")
    assert (code, json.loads(out)["episodes"], len(store)) == (0, 5, 5)
    assert json.loads(out)["digest"] == store.digest()
    assert store.source["format"] == "robomimic"
    assert outrider("info", tmp_path / "s")[0] == 0


def test_convert_takes_a_filter(outrider, tmp_path):
    assert outrider("convert", f"{LIFT}#valid", tmp_path / "s")[0] == 0
    assert len(open_store(tmp_path / "s")) == 2


def test_convert_is_all_or_nothing(outrider, tmp_path):
    code, _, err = outrider("convert", SHORT, tmp_path / "s")
    assert code == 2
    assert "demo_2: obs/robot0_eef_pos" in err
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten_unasked(outrider, tmp_path):
    path = tmp_path / "s"
    assert outrider("convert", LIFT, path)[0] == 0
    before = open_store(path).digest()
    for arguments in (("convert", f"{LIFT}#valid", path), collecting(path)):
        code, _, err = outrider(*arguments)
        assert (code, "--replace" in err) == (2, True)
        assert open_store(path).digest() == before
    assert outrider("convert", f"{LIFT}#valid", path, "--replace")[0] == 0
    assert len(open_store(path)) == 2


def collecting(path, *more):
    return "collect", "--task", "fake/point", "--episodes", 4, "--workers", 1, "--out", path, *more


def test_collect(outrider, tmp_path):
    code, out, err = outrider(*collecting(tmp_path / "s", "--seed", 5))
    assert code == 0
    assert "4 episodes" in out and "95% interval" in out
    assert "demos: 4/4" in err
    assert open_store(tmp_path / "s").source["seed"] == 5


def test_collect_settings(outrider, tmp_path):
    code, out, _ = outrider(
        *collecting(tmp_path / "s", "--json"),
        *("--set", "expert.failures=0", "--set", "task.options.max_steps=16"),
    )
    value = json.loads(out)
    assert (code, value["episodes"], value["expert_success"]["n"]) == (0, 4, value["attempts"])
    store = open_store(tmp_path / "s")
    assert store.task.max_steps == 16
    assert store.source["expert"] == {"failures": 0}


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("expert.failure=0", "demos.expert.failure: unknown key"),
        ("episodes=none", "demos.episodes"),
        ("speed=2", "demos.speed: unknown key"),
        ("task.options.steps=2", "task.options.steps: unknown key"),
    ],
)
def test_collect_names_a_wrong_setting(outrider, tmp_path, assignment, message):
    code, _, err = outrider(*collecting(tmp_path / "s", "--set", assignment))
    assert code == 2
    assert message in err
    assert not list(tmp_path.iterdir())


def test_a_damaged_store_says_so(outrider, tmp_path):
    assert outrider("convert", LIFT, tmp_path / "s")[0] == 0
    shutil.rmtree(tmp_path / "s" / "reward" / "c")
    code, _, err = outrider("info", tmp_path / "s")
    assert code == 2
    assert "reward: chunk 0 of 1 is missing" in err


def test_help_imports_no_data_library():
    import subprocess

    code = (
        "import sys; from outrider.core.cli import app; app.run(['demos', '--help']);"
        "import outrider.core.data.plugin, outrider.core.data.store, outrider.core.runs.collect;"
        "print([m for m in ('zarr', 'h5py', 'torch', 'mujoco') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_convert_refuses_numbers_that_are_not_finite(outrider, tmp_path):
    import h5py

    source = tmp_path / "nan.hdf5"
    shutil.copy(LIFT, source)
    with h5py.File(source, "r+") as file:
        file["data/demo_2/actions"][3, 0] = np.nan
    code, _, error = outrider("convert", source, tmp_path / "out")
    assert code == 2 and "nan.hdf5" in error and "action" in error
    assert not (tmp_path / "out").exists()
