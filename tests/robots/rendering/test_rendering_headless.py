import os
import subprocess
import sys

import pytest

pytest.importorskip("mujoco")

# Each case runs in a process of its own: a process loads OpenGL once.
SCENE = """
import numpy as np
from outrider.robots.rendering import Renderer, load_mujoco
mujoco = load_mujoco()
XML = '''<mujoco><worldbody>
<light pos="0 0 4"/><camera name="front" pos="0 -3 1" xyaxes="1 0 0 0 .3 1"/>
<geom type="plane" size="9 9 .1" rgba="0 0 1 1"/>
<body pos="0 0 .8"><freejoint/><geom type="sphere" size=".3" rgba="1 0 0 1"/></body>
</worldbody></mujoco>'''
model = mujoco.MjModel.from_xml_string(XML)
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
renderer = Renderer(model)
"""


def run(code, **environment):
    clean = {k: v for k, v in os.environ.items() if k not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
    return subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", SCENE + code],
        capture_output=True,
        text=True,
        env=clean | environment,
        timeout=120,
    )


def check_works(code, **environment):
    done = run(code, **environment)
    if "Install the Debian" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def last_line(code="renderer.render(data)", **environment):
    done = run(code, **environment)
    assert done.returncode == 1
    return next(x for x in done.stderr.splitlines() if x.startswith("outrider.core.errors"))


PICTURE = """
picture = renderer.render(data, "front", 80, 60)
assert picture.shape == (60, 80, 3) and picture.dtype == np.uint8, picture.shape
assert picture.flags.c_contiguous
ball, floor, sky = picture[12, 40], picture[58, 5], picture[2, 40]
assert ball[0] > 100 and ball[2] < 50, ball
assert floor[2] > 50 and floor[0] < 30, floor  # below, so the picture is upright
assert sky.max() < 30, sky
"""


@pytest.mark.parametrize("environment", [{}, {"MUJOCO_GL": "egl"}, {"MUJOCO_GL": "osmesa"}])
def test_a_picture_is_upright_and_shows_the_scene(environment):
    check_works(PICTURE, **environment)


def test_sizes_and_cameras_may_change_and_a_closed_renderer_starts_again():
    check_works(
        PICTURE
        + """
for width, height in ((33, 77), (900, 700), (80, 60)):
    assert renderer.render(data, 0, width, height).shape == (height, width, 3)
np.testing.assert_array_equal(renderer.render(data, "front", 80, 60), picture)
assert (renderer.render(data, -1, 80, 60) != picture).any()
other = Renderer(model)
other.render(data)
renderer.close()
renderer.close()
np.testing.assert_array_equal(renderer.render(data, "front", 80, 60), picture)
del other
"""
    )


def test_the_model_is_left_as_it_was_and_cheap_is_not_fine():
    check_works(
        """
quality = model.vis.quality
before = quality.offsamples, quality.shadowsize, data.qpos.tobytes(), data.qacc.tobytes()
cheap = renderer.render(data, "front", 80, 60)
fine = Renderer(model, fine=True).render(data, "front", 80, 60)
assert (quality.offsamples, quality.shadowsize) == before[:2] != (0, 0)
assert (data.qpos.tobytes(), data.qacc.tobytes()) == before[2:]
assert (fine != cheap).any()
"""
    )


def test_it_does_not_matter_that_mujoco_chose_a_backend_that_needs_a_display():
    check_works("assert mujoco.Renderer\n" + PICTURE)


def test_a_camera_that_the_model_has_not_is_named():
    line = last_line("renderer.render(data, 'side')")
    assert "the model has no camera 'side'. Cameras: front; -1 is the free camera." in line


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"MUJOCO_GL": "off"}, "MUJOCO_GL=off switches rendering off"),
        ({"MUJOCO_GL": "vulkan"}, "MUJOCO_GL=vulkan is no OpenGL backend"),
        ({"PYOPENGL_PLATFORM": "osmesa", "MUJOCO_GL": "egl"}, "contradicts the backend egl"),
    ],
)
def test_a_setting_that_cannot_work_is_named(environment, message):
    assert message in last_line(**environment)


NO_LIBRARY = """
import outrider.robots.rendering as rendering
rendering._library = lambda name: None
"""


def test_without_any_backend_the_packages_are_named():
    line = last_line(NO_LIBRARY + "renderer.render(data)")
    for word in ("libegl1", "libgl1-mesa-dri", "libosmesa6", "MUJOCO_GL"):
        assert word in line


def test_a_backend_that_does_not_start_names_its_package():
    broken = "import sys\nsys.modules['OpenGL'] = None\nsys.modules['mujoco.egl'] = None\n"
    line = last_line(broken + "renderer.render(data)", MUJOCO_GL="egl")
    assert "pip install 'outrider[sim]'" in line
    broken = "import mujoco.egl\ndef fail(*a): raise RuntimeError('no device\\nat all')\n"
    line = last_line(broken + "mujoco.egl.GLContext = fail\nrenderer.render(data)", MUJOCO_GL="egl")
    assert "rendering by egl: OpenGL does not start (RuntimeError: no device)" in line
    assert "libegl1 and libgl1-mesa-dri" in line


def test_simulation_needs_no_picture_library():
    assert check_works("print(len(data.qpos))", MUJOCO_GL="off") == "7\n"
