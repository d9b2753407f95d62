"""Films of evaluated episodes, small enough to travel inside a report.

A film is the recorded commands played back from the recorded seed, not a new rollout: what it
shows is the episode that was counted, and it needs no policy.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from outrider.core.errors import MissingDependency
from outrider.core.simulation.types import Simulator
from outrider.core.types import Episode

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

Frame = npt.NDArray[np.uint8]

MAX_GIF_BYTES = 1_500_000
_HOLD_S = 1.0  # the last frame stays for so long before the film starts again
_COLOURS = 128
_SAVINGS = ((1, 1.0), (2, 1.0), (2, 0.75), (4, 0.75), (4, 0.5))  # every k-th frame, size


@dataclass(frozen=True, slots=True)
class Film:
    """Frames of one episode, and how it ended in the replay.

    Attributes:
        frames: each (height, width, 3), RGB; at least one.
        fps: frames per second of simulated time.
        seed: of the reset.
        success: whether any replayed step reported success.
        returned: undiscounted return of the replay.
        steps: control steps.
        seconds: simulated time.
        faithful: whether the replay met the recorded observations.
    """

    frames: tuple[Frame, ...]
    fps: float
    seed: int
    success: bool
    returned: float
    steps: int
    seconds: float
    faithful: bool


def film(
    simulator: Simulator, episode: Episode, *, width: int = 240, height: int = 180, fps: float = 10
) -> Film:
    """Play an episode's commands back and render it at a reduced rate.

    Args:
        simulator: of the task and with the options that the episode was recorded with.
        episode: as evaluated.
        width: of a frame, pixels.
        height: of a frame, pixels.
        fps: wanted frames per second; the nearest whole fraction of the control rate is taken.

    Raises:
        OutriderError: from the simulator, when it cannot render on this machine.
    """
    rate = simulator.spec.rate_hz
    every = max(1, round(rate / fps))
    observation = simulator.reset(episode.seed)
    frames = [simulator.render(width, height)]
    faithful, success, returned = True, False, 0.0
    for t, action in enumerate(episode.action):
        faithful = faithful and _same(observation, episode.observation[t])
        observation, reward, succeeded, _ = simulator.step(action)
        success, returned = success or succeeded, returned + reward
        if (t + 1) % every == 0 or t + 1 == len(episode):
            frames.append(simulator.render(width, height))
    return Film(
        frames=tuple(frames),
        fps=rate / every,
        seed=episode.seed,
        success=success,
        returned=float(returned),
        steps=len(episode),
        seconds=len(episode) / rate,
        faithful=faithful,
    )


def _same(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    return bool(np.allclose(a, b, rtol=1e-4, atol=1e-4))


def encode_gif(film: Film, max_bytes: int = MAX_GIF_BYTES) -> bytes:
    """A looping GIF at the speed of the robot.

    Frames are dropped, then shrunk, until it fits `max_bytes`; a film that does not fit even then
    is returned at its smallest.

    Raises:
        MissingDependency: without pillow.
    """
    content = b""
    for stride, scale in _SAVINGS:
        frames = (*film.frames[:-1:stride], film.frames[-1])  # the end is what people look for
        content = _gif(frames, film.fps / stride, scale)
        if len(content) <= max_bytes:
            break
    return content


def _gif(frames: Sequence[Frame], fps: float, scale: float) -> bytes:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingDependency("pillow", "sim", "writing films") from error

    def picture(frame: Frame) -> "Picture":
        image = Image.fromarray(frame)
        if scale == 1:
            return image
        return image.resize((round(image.width * scale), round(image.height * scale)))

    # One palette for the whole film: fewer bytes, and the background does not flicker. Maximum
    # coverage keeps the colour of small things, such as a cube on a large table.
    method = Image.Quantize.MAXCOVERAGE
    palette = picture(frames[len(frames) // 2]).quantize(_COLOURS, method)
    images = [picture(f).quantize(palette=palette, dither=Image.Dither.NONE) for f in frames]
    duration = max(20, round(1000 / fps))  # browsers slow anything shorter than 20 ms down
    durations = [duration] * (len(images) - 1) + [duration + round(1000 * _HOLD_S)]
    buffer = io.BytesIO()
    images[0].save(
        buffer,
        format="GIF",
        save_all=True,
        append_images=images[1:],
        duration=durations if len(images) > 1 else durations[0],
        loop=0,
    )
    return buffer.getvalue()
