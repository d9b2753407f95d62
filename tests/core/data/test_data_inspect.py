import json

import numpy as np
import pytest
from data_fakes import TASK, make_demonstrations, make_episode
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.core.data.checks import longest_run
from outrider.core.data.columns import Columns
from outrider.core.data.errors import DataError
from outrider.core.data.inspect import inspect
from outrider.core.data.store import open_store, write_store
from outrider.core.host.objects import DatasetInfo


class Listed:
    """A reader without random access."""

    def __init__(self, episodes, task=TASK):
        self._episodes = episodes
        self.info = DatasetInfo(task, len(episodes), {"notes": []})

    def episodes(self):
        for episode in self._episodes:
            if isinstance(episode, Exception):
                raise episode
            yield episode


def episodes(count=4, steps=12):
    return [make_episode(steps, seed) for seed in range(count)]


def findings(items, check=None, task=TASK):
    found = inspect(Listed(items, task)).findings
    return [f for f in found if check in (None, f.check)]


def only(items, check, task=TASK):
    (finding,) = findings(items, check, task)
    return finding


def test_sound_data_have_no_findings():
    assert findings(episodes()) == []


def test_facts():
    items = [*episodes(3), make_episode(20, 9)]
    items[1].success[:] = False
    facts = inspect(Listed(items)).facts
    assert (facts.episodes, facts.readable, facts.steps) == (4, 4, 56)
    assert facts.lengths == (12, 12.0, 20)
    assert facts.seconds == pytest.approx(5.6)
    assert facts.success_rate == 0.75
    assert (facts.terminated, facts.truncated) == (4, 0)
    assert facts.extra == {"qpos": "float64[3]", "timestamp": "float64[]"}
    assert [r.label for r in facts.observation][:3] == ["position[0]", "position[1]", "quat[0]"]
    assert facts.observation[0].unit == "m"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("array", "field"),
    [
        ("observation", "observation: position[1]"),
        ("action", "action: velocity[1]"),
        ("reward", "reward"),
        ("final_observation", "final_observation: position[1]"),
    ],
)
def test_non_finite(value, array, field):
    items = episodes()
    target = getattr(items[2], array)
    position = {"reward": 7, "final_observation": 1}.get(array, (7, 1))
    target[position] = value
    finding = only(items, "non-finite")
    assert (finding.severity, finding.episode, finding.field) == ("error", "2", field)
    assert finding.step == (0 if array == "final_observation" else 7)
    assert finding.value == str(np.float32(value))
    json.dumps(inspect(Listed(items)).to_json(), allow_nan=False)


def test_actions_out_of_limits():
    items = episodes()
    items[1].action[[3, 8], 0] = 1.5
    finding = only(items, "limits")
    assert (finding.severity, finding.episode, finding.step, finding.value) == (
        "error",
        "1",
        3,
        1.5,
    )
    assert finding.field == "action: velocity[0]"
    assert "2 times" in finding.what


def test_rounding_is_not_out_of_limits():
    items = episodes()
    items[1].action[3, 0] = np.nextafter(np.float32(1), np.float32(2))
    assert findings(items) == []


def test_observations_out_of_limits_are_a_warning():
    items = episodes()
    items[0].observation[2, 1] = -9.5
    finding = only(items, "limits")
    assert (finding.severity, finding.step) == ("warning", 2)


@pytest.mark.parametrize(("frames", "found"), [(4, 0), (5, 1), (9, 1)])
def test_stuck_frames(frames, found):
    items = episodes(8, 30)
    items[3].observation[6 : 6 + frames] = items[3].observation[6]
    stuck = findings(items, "stuck")
    assert len(stuck) == found
    if found:
        assert (stuck[0].episode, stuck[0].step, stuck[0].value) == ("3", 6, frames)


def test_data_recorded_faster_than_sensed():
    items = episodes(3, 30)
    for item in items:
        item.observation[1::2] = item.observation[::2]
    finding = only(items, "repeated")
    assert finding.value == pytest.approx(15 / 29)


@pytest.mark.parametrize(
    ("name", "checked"), [("timestamp", True), ("Time", True), ("clock", False)]
)
def test_time_stamps_that_jump(name, checked):
    items = episodes()
    for item in items:
        item.extra[name] = item.extra.pop("timestamp")
    items[2].extra[name][5:] += 0.1
    found = findings(items, "time")
    assert len(found) == checked
    if checked:
        assert (found[0].severity, found[0].episode, found[0].step) == ("error", "2", 5)
        assert found[0].value == pytest.approx(0.2)


def test_quaternion_sign_flip():
    items = episodes()
    items[1].observation[4:, 2:] *= -1
    finding = only(items, "quaternion")
    assert (finding.episode, finding.step, finding.field) == ("1", 4, "observation: quat")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_found_once(value):
    items = episodes()
    items[0].observation[3:6, 2:] = value
    items[1].extra["timestamp"][4:7] = value
    found = [f for f in inspect(Listed(items)).findings if f.severity == "error"]
    assert [(f.episode, f.field) for f in found if f.check == "non-finite"] == [
        ("0", "observation: quat[0]"),
        ("1", "extra/timestamp"),
    ]
    assert not [f for f in found if f.check == "quaternion"]


def test_constant_and_duplicate_dimensions():
    items = episodes()
    for item in items:
        item.action[:, 1] = 0.5
        item.observation[:, 1] = item.observation[:, 0]
    constant, duplicate = only(items, "constant"), only(items, "duplicate")
    assert (constant.field, constant.value) == ("action: velocity[1]", 0.5)
    assert duplicate.field == "observation: position[1]"
    assert duplicate.what == "always equals position[0]"


def test_duplicated_episode():
    items = [*episodes(), make_episode(12, 1)]
    finding = only(items, "duplicate-episode")
    assert finding.episode == "4"
    assert "episode 1" in finding.what


def test_lengths_that_disagree_do_not_end_the_inspection():
    items = episodes()
    items[1].observation = items[1].observation[:-1]
    found = inspect(Listed(items))
    (error,) = [f for f in found.findings if f.severity == "error"]
    assert (error.check, error.episode, error.field) == ("unusable", "1", "observation")
    assert found.facts.readable == 3


def test_empty_episode():
    items = episodes()
    for name in ("observation", "action", "reward", "success"):
        setattr(items[3], name, getattr(items[3], name)[:0])
    items[3].extra = {}
    finding = only(items, "unusable")
    assert (finding.episode, finding.what) == ("3", "has no steps")


def test_a_stream_that_breaks_is_a_finding():
    items = [*episodes(2), DataError("is broken", path="x", episode="2", field="cam"), *episodes(1)]
    found = inspect(Listed(items))
    assert (found.facts.readable, found.errors) == (2, 1)
    assert found.findings[0].field == "cam"


def test_nothing_usable():
    found = inspect(Listed([DataError("is broken", path="x")]))
    assert {f.check for f in found.findings} == {"unusable", "empty"}
    assert found.facts.success_rate is None
    json.dumps(found.to_json(), allow_nan=False)


def test_no_success():
    items = episodes()
    for item in items:
        item.success[:] = False
    assert only(items, "no-success").severity == "warning"


def test_errors_come_first():
    items = episodes()
    items[3].action[0, 0] = np.nan
    items[0].observation[4:, 2:] *= -1
    assert [f.severity for f in findings(items)] == ["error", "warning"]


class TestStore:
    def test_a_damaged_chunk_spoils_its_episodes_only(self, tmp_path, monkeypatch):
        from outrider.core.data.layout import Declaration

        monkeypatch.setattr(Declaration, "chunk_rows", lambda self, first: 12)
        write_store(tmp_path / "s", TASK, episodes(5), {})
        chunk = tmp_path / "s" / "action" / "c" / "2" / "0"
        chunk.write_bytes(bytes(len(chunk.read_bytes())))
        found = inspect(open_store(tmp_path / "s"))
        (error,) = [f for f in found.findings if f.severity == "error"]
        assert (error.episode, error.field) == ("2", "action")
        assert found.facts.readable == 4

    def test_changed_attributes(self, tmp_path):
        write_store(tmp_path / "s", TASK, episodes(), {})
        file = tmp_path / "s" / "zarr.json"
        file.write_text(file.read_text().replace('"rate_hz": 10.0', '"rate_hz": 10.5'))
        (error,) = [
            f for f in inspect(open_store(tmp_path / "s")).findings if f.severity == "error"
        ]
        assert error.check == "digest"


@settings(max_examples=40, deadline=None)
@given(parts=st.lists(st.integers(1, 9), min_size=1, max_size=5), offset=st.sampled_from([0, 1e4]))
def test_running_statistics_equal_those_of_all_rows(parts, offset):
    demonstrations = make_demonstrations(parts)
    rows = demonstrations.observation + np.float32(offset)
    columns = Columns(TASK.observation)
    for part in np.split(rows, demonstrations.ends[:-1]):
        columns.add(part)
    wide = rows.astype(np.float64)
    ranges = columns.ranges()
    np.testing.assert_allclose([r.mean for r in ranges], wide.mean(axis=0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose([r.std for r in ranges], wide.std(axis=0), rtol=1e-6, atol=1e-9)
    assert [r.low for r in ranges] == wide.min(axis=0).tolist()
    assert [r.high for r in ranges] == wide.max(axis=0).tolist()


@given(flags=st.lists(st.booleans(), max_size=12))
def test_longest_run(flags):
    start, length = longest_run(np.array(flags, np.bool_))
    runs = [
        (i, j) for i in range(len(flags)) for j in range(i + 1, len(flags) + 1) if all(flags[i:j])
    ]
    assert length == max((j - i for i, j in runs), default=0)
    assert all(flags[start : start + length])


def test_non_finite_demonstrations_are_refused_for_training():
    demonstrations = make_demonstrations((3, 4))
    demonstrations.action[5, 1] = np.inf
    with pytest.raises(DataError, match=r"file: episode b: action: velocity\[1\]: step 2 is inf"):
        demonstrations.require_finite("file", ("a", "b"))
