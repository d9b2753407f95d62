"""The control law: linear algebra against numpy, torques against robosuite's own functions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.robots.robosuite.library import quiet

with quiet():
    from robosuite.utils import control_utils

from outrider.robots.robosuite.osc import (
    NULLSPACE_KP,
    Actuators,
    ArmState,
    Goal,
    arm_torques,
    arm_torques_singular,
    cholesky,
    compiled,
    gram,
    pose_error,
    product,
    solve_cholesky,
    solve_lower,
)

seeds = st.integers(0, 2**32 - 1)
GAINS = np.stack([np.full(6, 150.0), np.full(6, 2 * np.sqrt(150.0))])


def rotation(rng):
    q, r = np.linalg.qr(rng.standard_normal((3, 3)))
    q = q * np.sign(np.diag(r))
    return q * np.sign(np.linalg.det(q))


def random_arm(seed, n=7, extra=3):
    """An arm of n joints, scattered among further degrees of freedom."""
    rng = np.random.default_rng(seed)
    nv = n + extra
    root = rng.standard_normal((nv, nv))
    state = ArmState(
        jac=rng.standard_normal((6, nv)),
        mass=root @ root.T + nv * np.eye(nv),
        bias=rng.standard_normal(nv),
        qpos=rng.standard_normal(nv + 1),
        qvel=rng.standard_normal(nv),
        position=rng.standard_normal(3),
        rotation=rotation(rng).ravel(),
        joints=np.sort(rng.permutation(nv + 1)[:n]),
        dofs=np.sort(rng.permutation(nv)[:n]),
    )
    goal = Goal(rng.standard_normal(3), rotation(rng), rng.standard_normal(n))
    return state, goal


def torques_of(state, goal, limit=np.inf):
    n = len(state.dofs)
    actuators = Actuators(np.arange(n) + 1, np.full(n, -limit), np.full(n, limit))
    ctrl = np.zeros(n + 2)
    assert arm_torques(*state, *goal, GAINS, *actuators, ctrl)
    assert ctrl[0] == 0 and ctrl[-1] == 0
    return ctrl[1:-1]


def robosuite_torques(state, goal):
    """Written down from robosuite's run_controller with its own functions."""
    J, M = state.jac[:, state.dofs], state.mass[np.ix_(state.dofs, state.dofs)]
    J, M = np.ascontiguousarray(J), np.ascontiguousarray(M)
    velocity = state.qvel[state.dofs]
    current = state.rotation.reshape(3, 3)
    error = np.concatenate(
        [goal.position - state.position, control_utils.orientation_error(goal.rotation, current)]
    )
    desired = GAINS[0] * error - GAINS[1] * (J @ velocity)
    _, lambda_pos, lambda_ori, null = control_utils.opspace_matrices(M, J, J[:3], J[3:])
    wrench = np.concatenate([lambda_pos @ desired[:3], lambda_ori @ desired[3:]])
    return (
        J.T @ wrench
        + state.bias[state.dofs]
        + control_utils.nullspace_torques(
            M, null, goal.posture, state.qpos[state.joints], velocity, NULLSPACE_KP
        )
    )


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_torques_equal_those_of_robosuite(seed):
    state, goal = random_arm(seed)
    expected = robosuite_torques(state, goal)
    scale = 1 + np.abs(expected).max()
    assert np.abs(torques_of(state, goal) - expected).max() < 1e-9 * scale
    assert np.abs(arm_torques_singular(state, goal, GAINS) - expected).max() < 1e-9 * scale


def test_torques_are_clipped_to_the_limits():
    state, goal = random_arm(1)
    free = torques_of(state, goal)
    assert np.array_equal(torques_of(state, goal, 5.0), np.clip(free, -5.0, 5.0))
    assert (np.abs(free) > 5.0).any()


def test_at_the_goal_and_at_rest_only_bias_forces_remain():
    state, _ = random_arm(2)
    state.qvel[:] = 0
    at_rest = Goal(state.position, state.rotation.reshape(3, 3), state.qpos[state.joints])
    assert np.allclose(torques_of(state, at_rest), state.bias[state.dofs], atol=1e-12)


def test_posture_torques_do_not_move_the_hand():
    """The acceleration that the null-space part causes at the hand, J M^-1 tau, is zero."""
    state, goal = random_arm(3)
    state.qvel[:] = 0
    here = Goal(state.position, state.rotation.reshape(3, 3), goal.posture)
    tau = torques_of(state, here) - state.bias[state.dofs]
    J, M = state.jac[:, state.dofs], state.mass[np.ix_(state.dofs, state.dofs)]
    assert np.abs(tau).max() > 0.1
    assert np.abs(J @ np.linalg.solve(M, tau)).max() < 1e-10


def test_a_lost_direction_is_reported_and_survived():
    state, goal = random_arm(4)
    state.jac[1] = 0.0
    ctrl = np.full(7, 9.0)
    actuators = Actuators(np.arange(7), np.full(7, -1.0), np.full(7, 1.0))
    assert not arm_torques(*state, *goal, GAINS, *actuators, ctrl)
    assert np.array_equal(ctrl, np.full(7, 9.0))
    assert np.isfinite(arm_torques_singular(state, goal, GAINS)).all()


@settings(max_examples=20, deadline=None)
@given(seeds, st.integers(1, 8))
def test_linear_algebra_against_numpy(seed, n):
    rng = np.random.default_rng(seed)
    x, b = rng.standard_normal((n, n + 2)), rng.standard_normal(n)
    a = x @ x.T + np.eye(n)
    assert np.allclose(np.tril(gram(x)), np.tril(x @ x.T))
    assert np.allclose(product(a, b), a @ b)
    factor = a.copy()
    assert cholesky(factor)
    lower = np.tril(factor)
    assert np.allclose(lower, np.linalg.cholesky(a))
    half, full = b.copy(), b.copy()
    solve_lower(factor, half)
    solve_cholesky(factor, full)
    assert np.allclose(half, np.linalg.solve(lower, b))
    assert np.allclose(full, np.linalg.solve(a, b))


@pytest.mark.parametrize("bad", [-np.eye(3), np.zeros((3, 3)), np.full((3, 3), np.nan)])
def test_cholesky_refuses_what_is_not_positive_definite(bad):
    assert not cholesky(bad.copy())


@settings(max_examples=20, deadline=None)
@given(st.floats(-1.5, 1.5), seeds)
def test_rotation_error_is_the_sine_times_the_axis(angle, seed):
    rng = np.random.default_rng(seed)
    base, axis = rotation(rng), np.array([0.0, 0.0, 1.0])
    c, s = np.cos(angle), np.sin(angle)
    turned = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1.0]]) @ base
    error = pose_error(np.zeros(3), base.ravel(), np.zeros(3), turned)
    assert np.allclose(error, [0, 0, 0, *(s * axis)], atol=1e-12)


def test_a_place_that_cannot_be_written_costs_the_cache_and_nothing_else(monkeypatch):
    from numba.core.caching import FunctionCache

    monkeypatch.setattr(FunctionCache._impl_class, "_locator_classes", [])
    assert compiled(lambda x: x + 1)(1) == 2
