import random
from pathlib import Path

import h5py
import numpy as np
import pytest
from data_fakes import ENV_ARGS_02, FakeHost, write_robomimic

from outrider.core.data.errors import DataError
from outrider.core.data.inspect import inspect
from outrider.core.data.readers import load_demonstrations, open_demonstrations
from outrider.core.data.robomimic import RobomimicReader, is_robomimic
from outrider.core.data.store import open_store, write_store
from outrider.core.errors import OutriderError

SAMPLES = Path(__file__).parents[2] / "data"
LIFT = SAMPLES / "robomimic_lift_low_dim.hdf5"
SHORT = SAMPLES / "11_robomimic_obs_shorter_than_actions.hdf5"
FLIPPED = SAMPLES / "12_robomimic_quaternion_sign_flip.hdf5"


class TestLiftSample:
    """A file that robosuite 1.5.2 and robomimic 0.5.0 wrote; the facts were read independently."""

    def test_task(self):
        task = RobomimicReader(LIFT).info.task
        assert task.task == "robosuite/lift"
        assert task.rate_hz == 20.0
        assert [(f.name, f.size) for f in task.observation.fields] == [
            ("robot0_eef_pos", 3),
            ("robot0_eef_quat", 4),
            ("robot0_gripper_qpos", 2),
            ("object", 10),
        ]
        assert task.action.size == 7
        assert (task.action.low == -1).all() and (task.action.high == 1).all()

    def test_episodes(self):
        reader = RobomimicReader(LIFT)
        episodes = list(reader.episodes())
        assert reader.names() == ("demo_1", "demo_2", "demo_3", "demo_4", "demo_5")
        assert reader.info.episodes == 5
        assert [len(e) for e in episodes] == [41, 41, 43, 41, 41]
        assert [int(np.argmax(e.success)) for e in episodes] == [35, 35, 37, 35, 35]
        assert [float(e.reward.sum()) for e in episodes] == [6.0] * 5
        assert all(e.terminated and not e.truncated for e in episodes)
        first = episodes[0]
        expected = [
            [0.880015, 0.312377, -1, 0, 0, 0, -1],
            [0.052210, -0.027516, 0.984238, 0, 0, 0, 1],
        ]
        np.testing.assert_allclose(first.action[[0, -1]], expected, atol=1e-6)
        assert first.observation.dtype == first.action.dtype == np.float32

    def test_order_of_the_flat_observation(self):
        episode = RobomimicReader(LIFT).episode(2)
        with h5py.File(LIFT) as file:
            obs, after = file["data/demo_3/obs"], file["data/demo_3/next_obs"]
            keys = ("robot0_eef_pos", "robot0_eef_quat", "robot0_gripper_qpos", "object")
            flat = np.concatenate([obs[k][()] for k in keys], axis=1).astype(np.float32)
            last = np.concatenate([after[k][-1] for k in keys]).astype(np.float32)
            states = file["data/demo_3/states"][()]
        np.testing.assert_array_equal(episode.observation, flat)
        np.testing.assert_array_equal(episode.final_observation, last)
        np.testing.assert_array_equal(episode.extra["states"], states)

    def test_filters(self):
        assert RobomimicReader(LIFT).info.source["filters"] == {"train": 3, "valid": 2}
        train = RobomimicReader(LIFT.with_name(LIFT.name + "#train"))
        assert train.names() == ("demo_1", "demo_4", "demo_5")
        assert len(list(train.episodes())) == train.info.episodes == 3
        with pytest.raises(DataError, match=r"no filter 'test'. The file has: train, valid"):
            RobomimicReader(LIFT.with_name(LIFT.name + "#test"))

    def test_other_keys(self):
        reader = RobomimicReader(LIFT, keys=("robot0_joint_pos", "object"))
        assert [f.name for f in reader.info.task.observation.fields] == [
            "robot0_joint_pos",
            "object",
        ]
        assert reader.episode(0).observation.shape == (41, 17)
        with pytest.raises(DataError, match=r"obs/cube: is missing\. The file has object, "):
            RobomimicReader(LIFT, keys=("cube",))

    def test_says_what_it_assumed(self):
        notes = RobomimicReader(LIFT).info.source["notes"]
        assert notes[0] == "env_args have no control_freq: 20 Hz assumed"
        assert notes[1].startswith("obs/object follows robosuite 1.5")

    def test_converts_without_loss(self, tmp_path):
        reader = RobomimicReader(LIFT)
        write_store(tmp_path / "s", reader.info.task, reader.episodes(), reader.info.source)
        assert open_store(tmp_path / "s").digest() == load_demonstrations(LIFT, FakeHost()).digest()


class TestPlantedDefects:
    def test_observations_shorter_than_actions(self):
        with pytest.raises(DataError, match=r"demo_2: obs/robot0_eef_pos: has 40 rows.*has 41"):
            load_demonstrations(SHORT, FakeHost())
        found = inspect(RobomimicReader(SHORT), SHORT)
        (error,) = [f for f in found.findings if f.severity == "error"]
        assert (error.episode, error.field) == ("demo_2", "obs/robot0_eef_pos")
        assert "40" in error.what and "41" in error.what
        assert (found.facts.episodes, found.facts.readable) == (5, 4)

    def test_quaternion_sign_flip(self):
        found = inspect(RobomimicReader(FLIPPED), FLIPPED)
        (flip,) = [f for f in found.findings if f.check == "quaternion"]
        assert (flip.severity, flip.episode, flip.step) == ("warning", "demo_1", 20)
        assert flip.field == "observation: robot0_eef_quat"
        assert flip.value == pytest.approx(-1, abs=1e-3)

    def test_the_sound_file_has_no_errors(self):
        found = inspect(RobomimicReader(LIFT), LIFT)
        assert {f.check for f in found.findings} == {"constant"}  # the expert never turns
        assert found.errors == 0
        assert found.facts.success_rate == 1.0


class TestBuiltFiles:
    def test_old_layout(self, tmp_path):
        reader = RobomimicReader(write_robomimic(tmp_path / "a.hdf5"))
        task = reader.info.task
        assert (task.task, task.rate_hz, task.observation.size) == ("robosuite/square", 25.0, 23)
        assert [f.name for f in task.action.fields][-1] == "gripper"
        assert reader.names() == ("demo_0", "demo_1", "demo_2")

    def test_numbers_order_the_demonstrations(self, tmp_path):
        reader = RobomimicReader(write_robomimic(tmp_path / "a.hdf5", demos=12))
        assert reader.names() == tuple(f"demo_{i}" for i in range(12))

    def test_without_next_obs_the_last_observation_is_repeated_and_said_so(self, tmp_path):
        reader = RobomimicReader(write_robomimic(tmp_path / "a.hdf5", next_obs=False))
        episode = reader.episode(0)
        np.testing.assert_array_equal(episode.final_observation, episode.observation[-1])
        assert any("no next_obs" in note for note in reader.info.source["notes"])

    def test_success_needs_the_full_reward(self, tmp_path):
        path = write_robomimic(tmp_path / "a.hdf5", demos=1)
        with h5py.File(path, "r+") as file:
            file["data/demo_0/rewards"][:] = [0.1, 0.4, 0.6, 0.9, 0.99, 1.0]  # shaped
        assert RobomimicReader(path).episode(0).success.tolist() == [False] * 5 + [True]

    def test_environments_that_do_not_tell_success(self, tmp_path):
        env = {"env_name": "Walker2d-v3", "type": 2, "env_kwargs": {}}
        path = write_robomimic(tmp_path / "a.hdf5", env_args=env, keys={"flat": 17})
        reader = RobomimicReader(path)
        assert (reader.info.task.task, reader.info.task.observation.size) == (
            "robomimic/walker2d-v3",
            17,
        )
        assert not reader.episode(0).succeeded
        assert [f.name for f in reader.info.task.action.fields] == ["action"]

    def test_images_are_left_out_with_a_note(self, tmp_path):
        path = write_robomimic(tmp_path / "a.hdf5")
        with h5py.File(path, "r+") as file:
            for demo in file["data"].values():
                demo["obs/agentview_image"] = np.zeros((6, 8, 8, 3), np.uint8)
        reader = RobomimicReader(path)
        assert reader.info.task.observation.size == 23
        assert "images are not read: agentview_image" in reader.info.source["notes"]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda f: f["data"].attrs.pop("env_args"), "env_args.*is missing"),
            (lambda f: f["data"].attrs.update(env_args="{"), "env_args.*not what robomimic"),
            (lambda f: f["data"].attrs.update(env_args="[1]"), "env_args.*not what robomimic"),
            (lambda f: f.pop("data"), "data: is missing"),
            (lambda f: [f["data"].pop(k) for k in list(f["data"])], "holds no group demo_K"),
            (lambda f: f["data/demo_0"].pop("obs"), "demo_0: obs: is missing: .*states only"),
            (lambda f: f["data/demo_0"].pop("actions"), "demo_0: actions: is missing"),
        ],
    )
    def test_the_file_cannot_be_used(self, tmp_path, change, message):
        path = write_robomimic(tmp_path / "a.hdf5")
        with h5py.File(path, "r+") as file:
            change(file)
        with pytest.raises(DataError, match=message):
            RobomimicReader(path)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda d: d["obs"].pop("object"), "obs/object: is missing"),
            (lambda d: d.attrs.update(num_samples=7), "num_samples is 7, actions has 6"),
            (lambda d: replace(d, "rewards", np.zeros(5)), "rewards: has 5 rows, actions has 6"),
            (lambda d: replace(d, "next_obs/object", np.zeros((7, 14))), "next_obs/object: has 7"),
            (lambda d: replace(d, "actions", np.zeros((6, 6))), "actions: has shape"),
            (lambda d: replace(d, "obs/object", np.zeros((6, 9))), "obs/object: has shape"),
            (lambda d: replace(d, "actions", np.array([b"x"] * 6)), "actions: is no numeric"),
            (lambda d: unwritten(d, "obs/object", (6, 14)), "obs/object: was declared but never"),
            (lambda d: unwritten(d, "actions", (2**40, 7)), "actions: declares .* bytes"),
            (lambda d: external(d), "actions: is missing"),
        ],
    )
    def test_one_demonstration_cannot_be_used(self, tmp_path, change, message):
        path = write_robomimic(tmp_path / "a.hdf5")
        with h5py.File(path, "r+") as file:
            change(file["data/demo_1"])
        with pytest.raises(DataError, match=f"episode demo_1: {message}"):
            list(RobomimicReader(path).episodes())
        found = inspect(RobomimicReader(path), path)
        assert (found.facts.readable, found.errors) == (2, 1)

    @pytest.mark.parametrize("field", ["actions", "obs/object", "rewards"])
    def test_nan_is_refused_for_training_and_found_by_inspection(self, tmp_path, field):
        path = write_robomimic(tmp_path / "a.hdf5")
        with h5py.File(path, "r+") as file:
            dataset = file[f"data/demo_2/{field}"]
            dataset[(4, *[1] * (dataset.ndim - 1))] = np.nan
        with pytest.raises(DataError, match=r"episode demo_2: .*: step 4 is nan") as caught:
            load_demonstrations(path, FakeHost())
        assert str(path) in str(caught.value)
        errors = [f for f in inspect(RobomimicReader(path)).findings if f.severity == "error"]
        assert (errors[0].episode, errors[0].step, errors[0].value) == ("demo_2", 4, "nan")

    @pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
    def test_truncated_file(self, tmp_path, share):
        content = write_robomimic(tmp_path / "a.hdf5").read_bytes()
        path = tmp_path / "b.hdf5"
        path.write_bytes(content[: int(len(content) * share)])
        with pytest.raises(OutriderError, match=r"b\.hdf5: ") as caught:
            load_demonstrations(path, FakeHost())
        assert "\n" not in str(caught.value)

    def test_any_flipped_byte_is_data_or_one_line(self, tmp_path):
        # Drawn from fixed seeds: about one damage in two thousand crashes libhdf5 2.0 itself,
        # which no test in this process could survive.
        whole = write_robomimic(tmp_path / "a.hdf5", demos=1).read_bytes()
        refused = 0
        for seed in range(80):
            draw = random.Random(seed)
            damaged = bytearray(whole)
            for _ in range(draw.randint(1, 3)):
                damaged[draw.randrange(len(whole))] ^= draw.randint(1, 255)
            path = tmp_path / f"{seed}.hdf5"
            path.write_bytes(damaged)
            try:
                inspect(open_demonstrations(path, FakeHost()), path)
            except OutriderError as error:
                refused += 1
                assert "\n" not in str(error)
        assert refused > 0


def replace(group, name, value):
    del group[name]
    group[name] = value


def unwritten(group, name, shape):
    del group[name]
    group.create_dataset(name, shape=shape, dtype="float64", chunks=(1, shape[1]))


def external(group):
    del group["actions"]
    group["actions"] = h5py.ExternalLink("elsewhere.hdf5", "/data/demo_0/actions")


class TestRecognition:
    def test_robomimic_and_nothing_else(self, tmp_path):
        assert is_robomimic(LIFT)
        assert is_robomimic(LIFT.with_name(LIFT.name + "#train"))
        assert not is_robomimic(tmp_path)
        assert not is_robomimic(tmp_path / "none.hdf5")
        (tmp_path / "a.hdf5").write_text("words")
        assert not is_robomimic(tmp_path / "a.hdf5")
        with h5py.File(tmp_path / "d4rl.hdf5", "w") as file:
            file["observations"] = np.zeros((3, 2))
        assert not is_robomimic(tmp_path / "d4rl.hdf5")

    def test_unknown_formats_list_the_readers(self, tmp_path):
        (tmp_path / "a.csv").write_text("x")
        with pytest.raises(
            DataError, match=r"a\.csv: no installed reader.*episode store, robomimic"
        ):
            open_demonstrations(tmp_path / "a.csv", FakeHost())
        with pytest.raises(DataError, match="does not exist"):
            open_demonstrations(tmp_path / "none", FakeHost())

    def test_env_args_survive(self, tmp_path):
        reader = RobomimicReader(write_robomimic(tmp_path / "a.hdf5"))
        assert reader.info.source["env_args"] == ENV_ARGS_02
