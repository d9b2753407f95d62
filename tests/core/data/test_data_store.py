import dataclasses
import json
import shutil

import numpy as np
import pytest
from data_fakes import TASK, assert_equal_episodes, make_demonstrations, make_episode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outrider.core.data import store as store_module
from outrider.core.data.errors import DataError
from outrider.core.data.layout import Declaration
from outrider.core.data.store import StoreWriter, digest, open_store, write_store
from outrider.core.errors import OutriderError
from outrider.core.types import Field, Spec, TaskSpec

LENGTHS = (5, 1, 8, 3)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "demos.zarr"
    write_store(path, TASK, make_demonstrations(LENGTHS).episodes(), {"by": "test"})
    return path


@pytest.fixture
def store(original, tmp_path):
    path = tmp_path / "demos.zarr"
    shutil.copytree(original, path)
    return path


def edit(path, change):
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


class TestRoundTrip:
    def test_everything_comes_back(self, store):
        opened = open_store(store)
        written = make_demonstrations(LENGTHS)
        assert opened.task == TASK
        assert opened.source == {"by": "test"}
        assert opened.info.episodes == len(opened) == 4
        for i, (a, b) in enumerate(zip(written.episodes(), opened.episodes(), strict=True)):
            assert_equal_episodes(a, b)
            assert_equal_episodes(a, opened.episode(i))
        loaded = opened.load()
        assert list(loaded.arrays()) == list(written.arrays())
        for name, array in written.arrays().items():
            np.testing.assert_array_equal(array, loaded.arrays()[name])

    def test_blocks_and_chunks_do_not_show(self, tmp_path, monkeypatch, original):
        monkeypatch.setattr(store_module, "BLOCK_BYTES", 400)  # a flush every episode or two
        monkeypatch.setattr(Declaration, "chunk_rows", lambda self, first: 3)
        write_store(tmp_path / "s", TASK, make_demonstrations(LENGTHS).episodes(), {})
        opened = open_store(tmp_path / "s")
        assert len(list(opened._blocks())) > 1
        for a, b in zip(make_demonstrations(LENGTHS).episodes(), opened.episodes(), strict=True):
            assert_equal_episodes(a, b)
        assert digest(tmp_path / "s") == digest(original)

    @settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(lengths=st.lists(st.integers(1, 20), min_size=1, max_size=6))
    def test_any_lengths(self, tmp_path_factory, lengths):
        path = tmp_path_factory.mktemp("any") / "s"
        demonstrations = make_demonstrations(lengths)
        assert write_store(path, TASK, demonstrations.episodes(), {}) == len(lengths)
        assert open_store(path).load().digest() == demonstrations.digest()

    def test_unbounded_and_half_bounded_limits_survive(self, tmp_path):
        task = TaskSpec(
            "toy/free",
            Spec((Field("x", (6,), "m", (-np.inf,) * 6, (1.0,) + (np.inf,) * 5),)),
            TASK.action,
            10.0,
            5,
            False,
            "",
        )
        write_store(tmp_path / "s", task, [make_episode(3)], {})
        assert open_store(tmp_path / "s").task == task
        text = (tmp_path / "s" / "zarr.json").read_text()
        json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))

    def test_all_zero_chunks_are_written(self, tmp_path):
        episode = make_episode(4, extra=False)
        episode.reward[:] = 0
        episode.success[:] = False
        write_store(tmp_path / "s", TASK, [episode], {})
        assert not open_store(tmp_path / "s").load().success.any()


class TestDigest:
    def test_equal_for_equal_content(self, store):
        assert digest(store) == make_demonstrations(LENGTHS).digest()
        assert open_store(store).written_digest == digest(store)

    def test_source_does_not_count(self, tmp_path, store):
        write_store(tmp_path / "b", TASK, open_store(store).episodes(), {"by": "another"})
        assert digest(tmp_path / "b") == digest(store)

    @pytest.mark.parametrize("array", ["observation", "action", "seed", "success"])
    def test_every_array_counts(self, array):
        a, b = make_demonstrations(LENGTHS), make_demonstrations(LENGTHS)
        changed = getattr(b, array)
        changed[0] = ~changed[0] if changed.dtype == np.bool_ else changed[0] + 1
        assert a.digest() != b.digest()

    def test_where_episodes_end_counts(self):
        a = make_demonstrations((2, 4))
        b = dataclasses.replace(a, ends=np.array([3, 6]))
        assert a.digest() != b.digest()


class TestWriter:
    def test_failure_leaves_the_old_store(self, store, tmp_path):
        before = digest(store)

        def episodes():
            yield make_episode(3)
            raise RuntimeError("simulator died")

        with pytest.raises(RuntimeError, match="simulator died"):
            write_store(store, TASK, episodes(), {})
        assert digest(store) == before
        assert [p.name for p in tmp_path.iterdir()] == ["demos.zarr"]

    def test_replaces_a_store_but_nothing_else(self, store, tmp_path):
        write_store(store, TASK, [make_episode(3)], {})
        assert len(open_store(store)) == 1
        (tmp_path / "thesis").mkdir()
        with pytest.raises(OutriderError, match="no episode store"):
            write_store(tmp_path / "thesis", TASK, [make_episode(3)], {})

    def test_source_may_be_completed_late(self, tmp_path):
        with StoreWriter(tmp_path / "s", TASK, {"a": 1}) as writer:
            writer.append(make_episode(3))
            writer.source["attempts"] = 7
        assert open_store(tmp_path / "s").source == {"a": 1, "attempts": 7}

    def test_no_episodes(self, tmp_path):
        with pytest.raises(DataError, match="no episodes to write"):
            write_store(tmp_path / "s", TASK, [], {})
        assert not list(tmp_path.iterdir())

    def test_source_must_be_json(self, tmp_path):
        with pytest.raises(DataError, match="source is no JSON value"):
            write_store(tmp_path / "s", TASK, [make_episode(3)], {"rate": float("nan")})

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda e: setattr(e, "observation", e.observation[:-1]), "observation: has shape"),
            (lambda e: setattr(e, "action", e.action[:, :1]), "action: has shape"),
            (lambda e: setattr(e, "final_observation", e.final_observation[:2]), "final_observ"),
            (lambda e: e.extra.pop("qpos"), "extra arrays are"),
            (lambda e: e.extra.update(qpos=e.extra["qpos"][:, :2]), "extra/qpos: has shape"),
            (lambda e: setattr(e, "action", e.action[:0]), "has no steps"),
        ],
    )
    def test_misfits_name_episode_and_field(self, tmp_path, change, message):
        bad = make_episode(6, seed=1)
        change(bad)
        with pytest.raises(DataError, match=f"episode 1.*{message}"):
            write_store(tmp_path / "s", TASK, [make_episode(6), bad], {})

    @pytest.mark.parametrize(
        ("extra", "message"),
        [
            ({"../up": np.zeros(3)}, "is no name for an array"),
            ({"words": np.array(["a", "b", "c"])}, "cannot be stored"),
        ],
    )
    def test_refuses_what_it_cannot_hold(self, tmp_path, extra, message):
        episode = make_episode(3)
        episode.extra = extra
        with pytest.raises(DataError, match=message):
            write_store(tmp_path / "s", TASK, [episode], {})


def outrider(value):
    return value["attributes"]["outrider"]


class TestDamage:
    """Each is one line that names the folder and the array; nothing is filled in silently."""

    def check_refused(self, store, pattern, read=False):
        with pytest.raises(OutriderError, match=pattern) as caught:
            opened = open_store(store)
            if read:
                opened.load()
        assert str(store) in str(caught.value)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        "name", ["observation", "reward", "seed", "extra/qpos", "episode_ends"]
    )
    def test_missing_chunk(self, store, name):
        next(p for p in (store / name / "c").rglob("*") if p.is_file()).unlink()
        self.check_refused(store, f"{name}: chunk 0 of 1 is missing")

    @pytest.mark.parametrize("name", ["action", "success", "extra/qpos"])
    def test_missing_array(self, store, name):
        shutil.rmtree(store / name)
        self.check_refused(store, f"{name}: is missing")

    def test_short_chunk(self, store):
        chunk = store / "action" / "c" / "0" / "0"
        chunk.write_bytes(chunk.read_bytes()[:-3])
        self.check_refused(store, "action: chunk 0 has 137 bytes instead of 140")

    @pytest.mark.parametrize("name", ["observation", "extra/qpos"])
    def test_flipped_bit_in_a_chunk(self, store, name):
        chunk = store / name / "c" / "0" / "0"
        content = bytearray(chunk.read_bytes())
        content[9] ^= 4
        chunk.write_bytes(content)
        self.check_refused(store, f"{name}: rows 0 to 16 cannot be read .*checksum", read=True)

    @pytest.mark.parametrize("count", [2**62, 10**18, 18])
    def test_huge_shape_is_found_without_allocating(self, store, count):
        edit(store / "observation" / "zarr.json", lambda v: v["shape"].__setitem__(0, count))
        self.check_refused(store, "observation: chunk 1 of .* is missing")

    def test_huge_chunk(self, store):
        def change(value):
            value["chunk_grid"]["configuration"]["chunk_shape"][0] = 2**50

        edit(store / "observation" / "zarr.json", change)
        self.check_refused(store, "observation: chunks of .* are too large")

    def test_lengths_that_disagree(self, store):
        edit(store / "reward" / "zarr.json", lambda v: v["shape"].__setitem__(0, 16))
        self.check_refused(store, "reward: has 16 rows, observation has 17")

    @pytest.mark.parametrize(
        ("name", "change", "message"),
        [
            ("action", lambda v: v.update(data_type="float64"), "dtype is 'float64'"),
            ("action", lambda v: v["shape"].__setitem__(1, 3), r"expected rows of \[2\]"),
            ("action", lambda v: v.update(shape="many"), "shape is many"),
            ("action", lambda v: v["codecs"].insert(1, {"name": "gzip"}), "is encoded in a way"),
            ("action", lambda v: v.update(codecs=None), "is encoded in a way"),
            ("action", lambda v: v.update(chunk_grid={"name": "odd"}), "not whole rows"),
            ("action", lambda v: v.update(zarr_format=2), "is encoded in a way"),
        ],
    )
    def test_array_metadata(self, store, name, change, message):
        edit(store / name / "zarr.json", change)
        self.check_refused(store, f"{name}: .*{message}")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda v: outrider(v).update(schema=2), "schema is 2, this version reads 1"),
            (lambda v: outrider(v).pop("task"), "damaged attributes"),
            (lambda v: outrider(v).update(extra={"../../etc": {}}), "damaged attributes"),
            (lambda v: outrider(v).update(source=[1]), "damaged attributes"),
            (lambda v: outrider(v)["task"].update(rate_hz=-1), "rate_hz is -1"),
            (lambda v: outrider(v)["task"].update(rate_hz="fast"), "damaged attributes"),
            (lambda v: outrider(v)["task"]["action"][0].update(shape=[-2]), "damaged attributes"),
            (lambda v: outrider(v)["task"]["action"][0].update(shape=[3]), "damaged attributes"),
            (lambda v: v.update(attributes={}), "no episode store"),
        ],
    )
    def test_attributes(self, store, change, message):
        edit(store / "zarr.json", change)
        self.check_refused(store, message)

    @pytest.mark.parametrize(
        ("ends", "message"),
        [
            ([5, 5, 14, 17], "episode 1.*not after the end of the one before"),
            ([5, 6, 14, 16], "episode 3.*ends at step 16, but there are 17 steps"),
            ([-(2**62), 6, 2**62, 17], "episode 0"),
        ],
    )
    def test_ends(self, store, ends, message):
        import zarr

        zarr.open_array(store / "episode_ends", mode="r+")[:] = ends
        self.check_refused(store, message)

    def test_not_there_and_not_a_folder(self, store, tmp_path):
        with pytest.raises(DataError, match="does not exist"):
            open_store(tmp_path / "none")
        (tmp_path / "file").write_text("x")
        with pytest.raises(DataError, match="is no folder"):
            open_store(tmp_path / "file")
        (store / "zarr.json").write_text("{")
        self.check_refused(store, "zarr.json: not valid JSON")

    @settings(
        max_examples=120,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    @given(data=st.data())
    def test_any_flipped_byte_is_data_or_one_line(self, store, data):
        files = sorted(p for p in store.rglob("*") if p.is_file())
        file = data.draw(st.sampled_from(files))
        whole = file.read_bytes()
        position = data.draw(st.integers(0, len(whole) - 1))
        flipped = bytearray(whole)
        flipped[position] ^= data.draw(st.integers(1, 255))
        file.write_bytes(flipped)
        try:
            loaded = open_store(store).load()
            assert loaded.steps == sum(LENGTHS)
            if file.name != "zarr.json":
                pytest.fail("a changed chunk was read in silence")
        except OutriderError as error:
            assert "\n" not in str(error)
        finally:
            file.write_bytes(whole)
