"""Map the six top-level folders into the one import namespace `outrider`."""

from setuptools import find_namespace_packages, setup

FOLDERS = ["core", "policies", "robots", "plugins", "configs"]

setup(
    package_dir={f"outrider.{folder}": folder for folder in FOLDERS},
    packages=[
        f"outrider.{package}"
        for package in find_namespace_packages(
            include=[pattern for folder in FOLDERS for pattern in (folder, f"{folder}.*")]
        )
    ],
)
