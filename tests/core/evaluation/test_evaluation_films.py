import io

import numpy as np
import pytest
from evaluation_fakes import SPEC, FakeSimulator, episode, fleet_of, seek, table
from PIL import Image
from report_fakes import section

from outrider.core.errors import OutriderError
from outrider.core.evaluation.films import Film, encode_gif, film
from outrider.core.evaluation.rollout import evaluate
from outrider.core.evaluation.storage import (
    evaluations,
    load_evaluation,
    load_films,
    load_sections,
    save_evaluation,
    save_film,
    save_section,
)


@pytest.fixture(scope="module")
def evaluated():
    return evaluate(seek(0.3, 0.4), fleet_of(2), 8, 4, range(50, 56), noise_seed=2)


def test_a_film_is_the_evaluated_episode(evaluated):
    for e in evaluated.episodes[:3]:
        shot = film(FakeSimulator(), e, width=64, height=48, fps=10)
        assert shot.faithful
        assert (shot.success, shot.steps, shot.seed) == (e.succeeded, len(e), e.seed)
        assert shot.returned == pytest.approx(e.reward.sum(), rel=1e-5)
        assert shot.fps == 10
        assert len(shot.frames) == 1 + -(-len(e) // 2)  # every second step, and the last one
        assert shot.frames[0].shape == (48, 64, 3)


def test_a_replay_that_leaves_the_record_says_so(evaluated):
    class Drifting(FakeSimulator):
        def step(self, action):
            return super().step(np.asarray(action) * 1.01)

    assert not film(Drifting(), evaluated.episodes[0], width=32, height=24).faithful


def test_gif_runs_at_the_speed_of_the_robot(evaluated):
    shot = film(FakeSimulator(), evaluated.episodes[0], width=64, height=48)
    image = Image.open(io.BytesIO(encode_gif(shot)))
    assert image.size == (64, 48)
    lasting = 0
    for i in range(image.n_frames):
        image.seek(i)
        lasting += image.info["duration"]
    assert lasting == pytest.approx(100 * len(shot.frames) + 1000)


def noisy(frames=40):
    rng = np.random.default_rng(0)
    pictures = tuple(rng.integers(0, 255, (90, 120, 3), dtype=np.uint8) for _ in range(frames))
    return Film(pictures, 10.0, 1, True, 0.0, frames, frames / 10, True)


def test_gif_is_kept_small():
    whole = encode_gif(noisy(), max_bytes=10**9)
    bound = len(whole) // 3
    small = encode_gif(noisy(), max_bytes=bound)
    assert len(small) <= bound
    image = Image.open(io.BytesIO(small))
    assert image.n_frames < 40


def test_one_frame_is_a_film():
    assert Image.open(io.BytesIO(encode_gif(noisy(1)))).size == (120, 90)


def test_evaluation_round_trip(tmp_path, evaluated):
    save_evaluation(tmp_path, "base", evaluated)
    found = load_evaluation(tmp_path, "base")
    assert found.task == SPEC
    assert (found.execute, found.noise) == (evaluated.execute, evaluated.noise)
    assert found.summary() == evaluated.summary()
    for a, b in zip(found.decisions(7), evaluated.decisions(7), strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(found.episodes, evaluated.episodes, strict=True):
        np.testing.assert_array_equal(a.observation, b.observation)
        np.testing.assert_array_equal(a.final_observation, b.final_observation)
        assert (a.terminated, a.truncated, a.seed) == (b.terminated, b.truncated, b.seed)
    assert evaluations(tmp_path) == ["base"]


def test_evaluation_is_replaced_whole(tmp_path, evaluated):
    save_evaluation(tmp_path, "base", evaluated)
    save_evaluation(tmp_path, "base", table(episode(np.zeros((3, 2)))))
    assert load_evaluation(tmp_path, "base").lengths.tolist() == [3]
    assert sorted(p.name for p in (tmp_path / "evaluation").iterdir()) == ["base.json", "base.npz"]


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b"x" * 99])
def test_damaged_evaluation_is_one_line(tmp_path, evaluated, damage):
    path = save_evaluation(tmp_path, "base", evaluated)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(OutriderError, match=r"base\.npz: cannot read the evaluation"):
        load_evaluation(tmp_path, "base")


def test_pickles_are_never_loaded(tmp_path):
    (tmp_path / "evaluation").mkdir()
    np.savez(tmp_path / "evaluation" / "base.npz", meta=np.array([{"a": 1}], object))
    with pytest.raises(OutriderError, match="cannot read"):
        load_evaluation(tmp_path, "base")


@pytest.mark.parametrize("label", ["../base", "", "a/b", ".hidden"])
def test_labels_stay_inside_the_run(tmp_path, evaluated, label):
    with pytest.raises(OutriderError, match="file name"):
        save_evaluation(tmp_path, label, evaluated)


def test_film_round_trip(tmp_path, evaluated):
    for label in ("finetuned", "base"):
        save_film(
            tmp_path, label, film(FakeSimulator(), evaluated.episodes[0], width=32, height=24)
        )
    found = load_films(tmp_path)
    assert [f.label for f in found] == ["base", "finetuned"]
    assert found[0].gif.startswith(b"GIF89a")
    (tmp_path / "films" / f"base-{found[0].seed}.gif").unlink()
    assert [f.label for f in load_films(tmp_path)] == ["finetuned"]


def test_section_round_trip(tmp_path):
    save_section(tmp_path, "aqm", "finetuned", section())
    assert load_sections(tmp_path) == [("aqm", "finetuned", section())]
