"""Headless rendering of MuJoCo models.

The OpenGL backend is `MUJOCO_GL` where it is set, else EGL, else OSMesa. It is asked for by
name, so it does not matter whether `mujoco` was imported before and which backend it chose then.
Shadows, reflections and multisampling are off unless asked for: in software they take sixteen
times as long as the rest of the picture.
"""

import atexit
import ctypes
import importlib
import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from outrider.core.errors import MissingDependency, OutriderError

OFF = ("disable", "disabled", "off", "false", "0")
WINDOWED = ("glfw", "glx", "enable", "enabled", "on", "true", "1")
OSMESA_LIBRARIES = ("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so")
EGL_PLATFORM_DEVICE = 0x313F
MAX_GEOMS = 10_000
ADVICE = {
    "egl": "Install the Debian packages libegl1 and libgl1-mesa-dri",
    "osmesa": "Install the Debian package libosmesa6",
    "glfw": "It needs a display; on a machine without one set MUJOCO_GL=egl",
}


class Renderer:
    """Renders one MuJoCo model off screen.

    The model's physics is not touched. The graphics context is made by the first picture and
    belongs to the process and the thread that asked for it.

    Args:
        model: a `mujoco.MjModel`.
        fine: with shadows, reflections and multisampling, as the model sets them.
    """

    def __init__(self, model: Any, *, fine: bool = False) -> None:
        self._model = model
        self._fine = fine
        self._gl: Any = None
        self._context: Any = None
        self._scene: Any = None
        self._free: Callable[[], object] = _nothing

    def render(
        self, data: Any, camera: str | int = -1, width: int = 320, height: int = 240
    ) -> npt.NDArray[np.uint8]:
        """A picture of `data`, RGB (height, width, 3), upright.

        Args:
            data: a `mujoco.MjData` of this model whose kinematics are up to date.
            camera: name or number of a camera of the model; -1 is the free camera.
            width: pixels.
            height: pixels.

        Raises:
            OutriderError: when no OpenGL backend works (it says what is missing), when the
                model has no such camera, or when a size is not positive.
        """
        mujoco = load_mujoco()
        if width < 1 or height < 1:
            raise OutriderError(f"a picture of {width} x {height} pixels cannot be rendered")
        view = self._camera(camera)
        if self._context is None:
            self._open()
        self._gl.make_current()
        if (self._context.offWidth, self._context.offHeight) != (width, height):
            mujoco.mjr_resizeOffscreen(width, height, self._context)
        everything = mujoco.mjtCatBit.mjCAT_ALL.value
        mujoco.mjv_updateScene(
            self._model, data, mujoco.MjvOption(), None, view, everything, self._scene
        )
        area = mujoco.MjrRect(0, 0, width, height)
        picture = np.empty((height, width, 3), np.uint8)
        mujoco.mjr_render(area, self._scene, self._context)
        mujoco.mjr_readPixels(picture, None, area, self._context)
        return np.ascontiguousarray(picture[::-1])  # OpenGL counts rows from the bottom

    def close(self) -> None:
        """Free the graphics context; the next picture makes a new one."""
        self._free()
        atexit.unregister(self._free)
        self._gl = self._context = self._scene = None
        self._free = _nothing

    def _open(self) -> None:
        mujoco = load_mujoco()
        with _quality(self._model, self._fine):
            self._gl, self._context = _graphics(self._model)
        self._free = _freed_with(self, self._gl, self._context)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        self._scene = mujoco.MjvScene(self._model, maxgeom=MAX_GEOMS)
        if not self._fine:
            self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = False
            self._scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False

    def _camera(self, camera: str | int) -> Any:
        mujoco = load_mujoco()
        names = [self._model.camera(i).name for i in range(self._model.ncam)]
        if isinstance(camera, str) and camera in names:
            camera = names.index(camera)
        if isinstance(camera, str) or not -1 <= camera < len(names):
            raise OutriderError(
                f"the model has no camera {camera!r}",
                fix=f"Cameras: {', '.join(names) or 'none'}; -1 is the free camera.",
            )
        view = mujoco.MjvCamera()
        if camera == -1:
            mujoco.mjv_defaultFreeCamera(self._model, view)
        else:
            view.type, view.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, camera
        return view


def _nothing() -> None:
    """What closing a renderer does that has no graphics context."""


def _freed_with(owner: Renderer, gl: Any, context: Any) -> Callable[[], object]:
    """A function that frees a graphics context, called by itself at the latest at exit.

    It is registered after the OpenGL binding's own exit handler and so runs before it: a context
    that is freed later makes the binding complain.
    """
    finalizer = weakref.finalize(owner, _free, gl, context)
    finalizer.atexit = False
    atexit.register(finalizer)
    return finalizer


def _free(gl: Any, context: Any) -> None:
    gl.make_current()
    context.free()
    gl.free()


@contextmanager
def _quality(model: Any, fine: bool) -> Iterator[None]:
    """Cheap picture settings while the graphics context reads them from the model."""
    quality = model.vis.quality
    before = quality.offsamples, quality.shadowsize
    if not fine:
        quality.offsamples, quality.shadowsize = 0, 0
    try:
        yield
    finally:
        quality.offsamples, quality.shadowsize = before


def load_mujoco() -> Any:
    """The module `mujoco`, whose import fails where `MUJOCO_GL` names a backend that is missing.

    Raises:
        OutriderError: what is missing, in one line.
    """
    try:
        return importlib.import_module("mujoco")
    except ModuleNotFoundError as error:
        raise MissingDependency(str(error.name), "sim", "simulation with MuJoCo") from error
    except Exception as error:
        raise _does_not_start(backend(), error) from error


@contextmanager
def backend_announced() -> Iterator[None]:
    """Let `MUJOCO_GL` name our backend, for a library that looks at it while it is imported.

    Where no backend works it says so, and the library can simulate all the same.
    """
    if os.environ.get("MUJOCO_GL"):
        yield
        return
    try:
        os.environ["MUJOCO_GL"] = backend()
    except OutriderError:
        os.environ["MUJOCO_GL"] = OFF[0]
    try:
        yield
    finally:
        del os.environ["MUJOCO_GL"]


def backend() -> str:
    """The OpenGL backend to use: `egl`, `osmesa` or `glfw`.

    Raises:
        OutriderError: when `MUJOCO_GL` forbids rendering or names nothing known, or when it is
            not set and neither EGL nor OSMesa works here.
    """
    wanted = os.environ.get("MUJOCO_GL", "").lower().strip()
    if wanted in OFF:
        raise OutriderError(
            f"MUJOCO_GL={wanted} switches rendering off", fix="Unset it or set MUJOCO_GL=egl."
        )
    if wanted in WINDOWED:
        return "glfw"
    if wanted in ("egl", "osmesa"):
        return wanted
    if wanted:
        raise OutriderError(
            f"MUJOCO_GL={wanted} is no OpenGL backend", fix="Set MUJOCO_GL to egl, osmesa or glfw."
        )
    if _egl_works():
        return "egl"
    if any(_library(name) for name in OSMESA_LIBRARIES):
        return "osmesa"
    raise OutriderError(
        "headless rendering needs EGL or OSMesa, and neither works here",
        fix=f"{ADVICE['egl']}, or libosmesa6, or set MUJOCO_GL to a backend that works.",
    )


def _graphics(model: Any) -> tuple[Any, Any]:
    """An OpenGL context of the chosen backend, made current, and MuJoCo's context on it."""
    mujoco = load_mujoco()
    name = backend()
    _settle_platform(name)
    try:
        gl = importlib.import_module(f"mujoco.{name}").GLContext(640, 480)
        gl.make_current()
        return gl, mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
    except ModuleNotFoundError as error:
        raise MissingDependency(str(error.name), "sim", "rendering") from error
    except Exception as error:  # each of the OpenGL bindings fails in a way of its own
        raise _does_not_start(name, error) from error


def _does_not_start(name: str, error: Exception) -> OutriderError:
    reason = f"{type(error).__name__}: {error}".splitlines()[0]
    return OutriderError(
        f"OpenGL does not start ({reason})",
        where=f"rendering by {name}",
        fix=f"{ADVICE[name]}, or set MUJOCO_GL to another backend ({', '.join(ADVICE)}).",
    )


def _settle_platform(name: str) -> None:
    """PyOpenGL loads one platform per process; refuse one that contradicts the backend."""
    settled = os.environ.get("PYOPENGL_PLATFORM", "").lower()
    if name in ("egl", "osmesa") and settled not in ("", name):
        raise OutriderError(
            f"PYOPENGL_PLATFORM={settled} contradicts the backend {name}",
            where="rendering",
            fix=f"Set MUJOCO_GL={settled} or unset PYOPENGL_PLATFORM.",
        )


def _library(name: str) -> ctypes.CDLL | None:
    with suppress(OSError):
        return ctypes.CDLL(name)
    return None


@cache
def _egl_works() -> bool:
    """Whether some EGL device starts, found out without loading PyOpenGL.

    Once PyOpenGL has loaded one platform it cannot change to another, so the question must be
    settled before. The display stays initialized: it is shared with every user in the process.
    """
    egl = _library("libEGL.so.1")
    if egl is None:
        return False
    pointer = ctypes.c_void_p
    egl.eglGetProcAddress.restype = pointer
    query, display_of = (
        egl.eglGetProcAddress(name) for name in (b"eglQueryDevicesEXT", b"eglGetPlatformDisplayEXT")
    )
    if not query or not display_of:
        return False
    devices, count = (pointer * 16)(), ctypes.c_int()
    find = ctypes.CFUNCTYPE(ctypes.c_uint, ctypes.c_int, pointer, pointer)(query)
    if not find(len(devices), ctypes.byref(devices), ctypes.byref(count)):
        return False
    open_display = ctypes.CFUNCTYPE(pointer, ctypes.c_uint, pointer, pointer)(display_of)
    displays = [open_display(EGL_PLATFORM_DEVICE, d, None) for d in devices[: count.value]]
    return any(d and egl.eglInitialize(pointer(d), None, None) for d in displays)
