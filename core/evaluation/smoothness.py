"""How smooth commands are: on executed commands, in physical units, at the control rate.

Every function takes commands (T, A) of one episode and gives one number per action element, (A,);
`smoothness` averages them over elements. Traps, whoever compares these numbers:

* Units and scale. Rates carry the units of the command, and a mean over elements mixes metres,
  radians and gripper openings. Compare a task with itself only. The power ratio, the reversal
  rate and the ratio of the chunk jump do not change when commands are scaled.
* Episode length. A policy that fails early is judged on its approach, one that succeeds early has
  no idle end. No measure here grows with T for a stationary signal (unlike the spectral score
  that sums amplitudes), but the mix of phases still changes: compare successes with successes.
* Nyquist. Commands at `rate_hz` show nothing above `rate_hz / 2`, and the same motion looks
  rougher per step and smoother per second at another rate. Alternating commands sit exactly in
  the last bin of the spectrum: it counts here.
* Order. Jerk is the third difference of the command. It is a jerk where the command is a
  position; for a velocity or delta command it is one order higher. Compare like with like.
* Short episodes. A difference that needs more steps than there are is 0, not undefined.
"""

from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from outrider.core.types import Bool, Float

CUTOFF_SHARE_OF_NYQUIST = 0.25
RATIO_CAP = 1000.0
_ROUNDING = 1e-6  # motion below this share of the largest command is float32 noise, not motion

_Wide = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Smoothness:
    """Smoothness of one episode, averaged over action elements. 0 is perfectly smooth.

    Attributes:
        action_rate: mean |da| * rate, command units per second.
        action_acceleration: mean |dda| * rate^2, command units per second squared.
        rms_jerk: root mean square of ddda * rate^3, command units per second cubed.
        high_frequency_ratio: share of the spectral power above the cut-off, 0 to 1.
        reversal_rate: changes of direction per second, 0 to rate.
        chunk_jump: mean norm of the step into a new chunk, command units.
        chunk_jump_ratio: `chunk_jump` over the mean norm of a step inside a chunk; 1 where
            boundaries cannot be told from the rest, at most 1000.
    """

    action_rate: float
    action_acceleration: float
    rms_jerk: float
    high_frequency_ratio: float
    reversal_rate: float
    chunk_jump: float
    chunk_jump_ratio: float

    def to_json(self) -> dict[str, float]:
        """Name -> number."""
        return asdict(self)


def smoothness(
    actions: Float, rate_hz: float, chunk_start: Bool | None = None, cutoff_hz: float | None = None
) -> Smoothness:
    """All measures of one episode.

    Args:
        actions: executed commands (T, A), T >= 1, physical units.
        rate_hz: control rate.
        chunk_start: (T,) bool, where the first command of a chunk was executed; None if the
            commands do not come in chunks.
        cutoff_hz: of the power ratio; None takes `default_cutoff(rate_hz)`.
    """
    if actions.ndim != 2 or len(actions) == 0:
        raise ValueError(f"commands must be (T, A) with T >= 1, not {actions.shape}")
    jump, ratio = chunk_boundary_jump(actions, chunk_start)
    return Smoothness(
        action_rate=float(action_rate(actions, rate_hz).mean()),
        action_acceleration=float(action_acceleration(actions, rate_hz).mean()),
        rms_jerk=float(rms_jerk(actions, rate_hz).mean()),
        high_frequency_ratio=float(high_frequency_ratio(actions, rate_hz, cutoff_hz).mean()),
        reversal_rate=float(reversal_rate(actions, rate_hz).mean()),
        chunk_jump=jump,
        chunk_jump_ratio=ratio,
    )


def default_cutoff(rate_hz: float) -> float:
    """A quarter of the Nyquist frequency: 2.5 Hz at 20 Hz.

    It moves with the control rate, so give one cut-off in Hz when two rates are compared.
    """
    return CUTOFF_SHARE_OF_NYQUIST * rate_hz / 2


def action_rate(actions: Float, rate_hz: float) -> _Wide:
    """Mean |a[t+1] - a[t]| * rate, (A,)."""
    return _mean(np.abs(_difference(actions, 1))) * rate_hz


def action_acceleration(actions: Float, rate_hz: float) -> _Wide:
    """Mean |a[t+2] - 2 a[t+1] + a[t]| * rate^2, (A,)."""
    return _mean(np.abs(_difference(actions, 2))) * rate_hz**2


def rms_jerk(actions: Float, rate_hz: float) -> _Wide:
    """Root mean square of the third difference * rate^3, (A,)."""
    return np.asarray(np.sqrt(_mean(_difference(actions, 3) ** 2)) * rate_hz**3)


def high_frequency_ratio(actions: Float, rate_hz: float, cutoff_hz: float | None = None) -> _Wide:
    """Share of the power above the cut-off, (A,), the mean excluded and the Nyquist bin included.

    The mean is removed first; then a periodic Hann window keeps a trend from leaking into high
    frequencies, at the price of spreading a tone over its two neighbouring bins. 0 for an element
    that does not move and for fewer than 4 steps.
    """
    T = len(actions)
    if T < 4:
        return np.zeros(actions.shape[1])
    commands = actions.astype(np.float64)
    moving = np.ptp(commands, axis=0) > _ROUNDING * np.abs(commands).max(axis=0)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(T) / T)
    spectrum = np.fft.rfft((commands - commands.mean(axis=0)) * window[:, None], axis=0)
    power = np.abs(spectrum) ** 2
    power[1 : (T + 1) // 2] *= 2  # bins that a two-sided spectrum has twice
    cutoff = default_cutoff(rate_hz) if cutoff_hz is None else cutoff_hz
    high = power[np.fft.rfftfreq(T, 1 / rate_hz) > cutoff].sum(axis=0)
    total = power[1:].sum(axis=0)
    return np.where(moving, high / np.where(moving, total, 1), 0.0)


def reversal_rate(actions: Float, rate_hz: float) -> _Wide:
    """Changes of direction per second, (A,): a tone of f Hz has 2f, alternation has `rate_hz`.

    A pause is no reversal: steps of no size take the direction of the step before.
    """
    T, A = actions.shape
    if T < 3:
        return np.zeros(A)
    steps = _difference(actions, 1)
    steps[np.abs(steps) <= _ROUNDING * np.abs(actions).max(axis=0)] = 0
    rate: _Wide = np.array([_reversals(steps[:, j]) for j in range(A)]) * (rate_hz / (T - 2))
    return rate


def _reversals(steps: _Wide) -> int:
    direction = np.sign(steps[steps != 0])
    return int((direction[1:] != direction[:-1]).sum())


def chunk_boundary_jump(actions: Float, chunk_start: Bool | None) -> tuple[float, float]:
    """Mean norm of the steps into a new chunk, and its ratio to that of the steps inside chunks.

    (0, 1) without a boundary. The ratio is 1 where no step lies inside a chunk (chunks of one
    step), and at most `RATIO_CAP`, which also stands for chunks that hold still inside.
    """
    norms = np.linalg.norm(_difference(actions, 1), axis=1)
    boundary = np.zeros(len(norms), bool) if chunk_start is None else chunk_start[1:]
    if not boundary.any():
        return 0.0, 1.0
    jump = float(norms[boundary].mean())
    if boundary.all() or jump == 0:
        return jump, 1.0 if boundary.all() or not norms.any() else 0.0
    return jump, jump / max(float(norms[~boundary].mean()), jump / RATIO_CAP)


def _difference(actions: Float, order: int) -> _Wide:
    return np.asarray(np.diff(actions.astype(np.float64), n=order, axis=0))


def _mean(values: _Wide) -> _Wide:
    return np.asarray(values.mean(axis=0)) if len(values) else np.zeros(values.shape[1])
