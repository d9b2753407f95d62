"""Operational space control of one arm, the arithmetic of one physics step (Khatib, 1987).

With mass matrix M, Jacobian J = [J_p; J_o] of the end effector and bias forces h:

    Lambda_p = (J_p M^-1 J_p^T)^-1,  Lambda_o and Lambda likewise for J_o and J
    F   = Lambda_p (kp (x_goal - x) - kd v),   T = Lambda_o (kp e_o - kd w)
    a   = 10 (q_0 - q) - 2 sqrt(10) q'                     pulls towards the initial posture
    tau = J^T [F; T] + h + (I - J^T Lambda J M^-1) M a

This is the controller of robosuite (position and orientation uncoupled, fixed gains) to rounding.
robosuite builds the inverses and the null-space matrix; here M = L L^T and X = L^-1 J^T give every
inverse that is needed as a Cholesky factor of X^T X or of its two diagonal blocks, and
M^-1 M a is a. Compiled, because it runs at the physics rate: 500 times in a simulated second.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]
F = TypeVar("F", bound=Callable[..., Any])

NULLSPACE_KP = 10.0
NULLSPACE_KV = 2.0 * np.sqrt(NULLSPACE_KP)


class ArmState(NamedTuple):
    """Views of the simulation that the control law reads at every physics step.

    Compiled functions take its fields one by one: numba spends five microseconds on taking apart
    a named tuple, and one and a half on the control law.

    Attributes:
        jac: (6, nv), Jacobian of the end effector's site, position before rotation.
        mass: (nv, nv), mass matrix.
        bias: (nv,), Coriolis, centrifugal and gravity forces.
        qpos: (nq,), generalized positions.
        qvel: (nv,), generalized velocities.
        position: (3,), of the site, m.
        rotation: (9,), of the site, row-major.
        joints: (n,), addresses of the arm's joints in `qpos`.
        dofs: (n,), addresses of the arm's joints in `qvel`.
    """

    jac: Array
    mass: Array
    bias: Array
    qpos: Array
    qvel: Array
    position: Array
    rotation: Array
    joints: Index
    dofs: Index


class Goal(NamedTuple):
    """Where the end effector should be, world frame, and the posture to keep while it goes there.

    Attributes:
        position: (3,), m.
        rotation: (3, 3).
        posture: (n,), joint positions that the null space is pulled towards, rad.
    """

    position: Array
    rotation: Array
    posture: Array


class Actuators(NamedTuple):
    """Where torques go: addresses in `ctrl` (n,), and the limits of each (n,)."""

    address: Index
    low: Array
    high: Array


def compiled(function: F) -> F:
    """Compile with numba; the machine code is kept on disk where some folder can be written."""
    try:
        return cast(F, numba.njit(cache=True)(function))
    except RuntimeError:  # neither the package's folder nor the user's cache can be written
        return cast(F, numba.njit(function))


@compiled
def cholesky(a: Array) -> bool:
    """Overwrite the lower triangle of a symmetric matrix by its Cholesky factor.

    Returns False, with `a` half-way, where the matrix is not positive definite.
    """
    n = a.shape[0]
    for j in range(n):
        pivot = a[j, j]
        for k in range(j):
            pivot -= a[j, k] * a[j, k]
        if not pivot > 0.0:
            return False
        a[j, j] = np.sqrt(pivot)
        for i in range(j + 1, n):
            s = a[i, j]
            for k in range(j):
                s -= a[i, k] * a[j, k]
            a[i, j] = s / a[j, j]
    return True


@compiled
def solve_lower(factor: Array, b: Array) -> None:
    """Overwrite b (n,) by L^-1 b."""
    for i in range(factor.shape[0]):
        s = b[i]
        for k in range(i):
            s -= factor[i, k] * b[k]
        b[i] = s / factor[i, i]


@compiled
def solve_cholesky(factor: Array, b: Array) -> None:
    """Overwrite b (n,) by (L L^T)^-1 b."""
    solve_lower(factor, b)
    for i in range(factor.shape[0] - 1, -1, -1):
        s = b[i]
        for k in range(i + 1, factor.shape[0]):
            s -= factor[k, i] * b[k]
        b[i] = s / factor[i, i]


@compiled
def gram(x: Array) -> Array:
    """X X^T (n, n) of rows X (n, m); the lower triangle only."""
    n = x.shape[0]
    product = np.zeros((n, n))
    for i in range(n):
        for k in range(i + 1):
            for c in range(x.shape[1]):
                product[i, k] += x[i, c] * x[k, c]
    return product


@compiled
def product(a: Array, b: Array) -> Array:
    """A b (n,); numba's own goes through BLAS, which takes longer to call than this to compute."""
    result = np.zeros(a.shape[0])
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            result[i] += a[i, k] * b[k]
    return result


@compiled
def pose_error(
    position: Array, rotation: Array, goal_position: Array, goal_rotation: Array
) -> Array:
    """Position error (3,) and rotation error (3,), the sine of the angle times the axis."""
    r, d = rotation.reshape(3, 3), goal_rotation
    error = np.zeros(6)
    for i in range(3):
        error[i] = goal_position[i] - position[i]
    for k in range(3):  # half the sum of current x desired, over the axes of both frames
        error[3] += 0.5 * (r[1, k] * d[2, k] - r[2, k] * d[1, k])
        error[4] += 0.5 * (r[2, k] * d[0, k] - r[0, k] * d[2, k])
        error[5] += 0.5 * (r[0, k] * d[1, k] - r[1, k] * d[0, k])
    return error


@compiled
def arm_torques(
    jac: Array,
    mass: Array,
    bias: Array,
    qpos: Array,
    qvel: Array,
    position: Array,
    rotation: Array,
    joints: Index,
    dofs: Index,
    goal_position: Array,
    goal_rotation: Array,
    goal_posture: Array,
    gains: Array,
    address: Index,
    low: Array,
    high: Array,
    ctrl: Array,
) -> bool:
    """Write the joint torques of one physics step to `ctrl[address]`, clipped to the limits, N m.

    Called as `arm_torques(*state, *goal, gains, *actuators, ctrl)`, with gains (2, 6): kp and kd
    of the six directions, position first.

    Returns False, with `ctrl` untouched, where a direction is lost (a singular posture).
    """
    J, M, velocity = jac[:, dofs], mass[dofs][:, dofs], qvel[dofs]
    a = NULLSPACE_KP * (goal_posture - qpos[joints]) - NULLSPACE_KV * velocity

    L = M.copy()
    if not cholesky(L):
        return False
    X = J.copy()  # the rows become L^-1 J^T
    for i in range(6):
        solve_lower(L, X[i])
    mobility = gram(X)
    translation, turning = mobility[:3, :3].copy(), mobility[3:, 3:].copy()
    if not (cholesky(translation) and cholesky(turning) and cholesky(mobility)):
        return False

    error = pose_error(position, rotation, goal_position, goal_rotation)
    wrench = gains[0] * error - gains[1] * product(J, velocity)
    solve_cholesky(translation, wrench[:3])
    solve_cholesky(turning, wrench[3:])
    pull = product(J, a)
    solve_cholesky(mobility, pull)
    torques = product(J.T, wrench - pull) + bias[dofs] + product(M, a)
    for i in range(address.shape[0]):
        ctrl[address[i]] = min(max(torques[i], low[i]), high[i])
    return True


def arm_torques_singular(state: ArmState, goal: Goal, gains: Array) -> Array:
    """The same torques (n,), unclipped, by pseudo-inverses, which survive a lost direction."""
    J, M = state.jac[:, state.dofs], state.mass[np.ix_(state.dofs, state.dofs)]
    velocity = state.qvel[state.dofs]
    a = NULLSPACE_KP * (goal.posture - state.qpos[state.joints]) - NULLSPACE_KV * velocity
    mobility = J @ np.linalg.pinv(M) @ J.T
    error = pose_error(state.position, state.rotation, goal.position, goal.rotation)
    wrench = gains[0] * error - gains[1] * (J @ velocity)
    for block in (slice(0, 3), slice(3, 6)):
        wrench[block] = np.linalg.pinv(mobility[block, block]) @ wrench[block]
    wrench -= np.linalg.pinv(mobility) @ (J @ a)
    return np.asarray(J.T @ wrench + state.bias[state.dofs] + M @ a)
