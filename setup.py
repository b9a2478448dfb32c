"""Maps the top-level folders to one package: `frontend` is `polyreme`, the other rooms are `polyreme.ir`, `polyreme.dialects`, …"""

from setuptools import find_packages, setup

ROOMS = ["ir", "dialects", "lowering", "runtime"]

folders = {"polyreme": "frontend"}
for name in find_packages(include=["frontend.*"]):
    folders["polyreme" + name.removeprefix("frontend")] = name.replace(".", "/")
for name in find_packages(include=[pattern for room in ROOMS for pattern in (room, f"{room}.*")]):
    folders[f"polyreme.{name}"] = name.replace(".", "/")

# The pages of the error codes, which `polyreme explain` shows, go along as a package of their own.
folders["polyreme.error_pages"] = "docs/errors"

# What the packages read at run time besides Python.
DATA = ["*.lark", "*.mjs", "*.ll", "*.h", "*.c", "*.npz", "*.txt", "py.typed"]

setup(packages=list(folders), package_dir=folders, package_data={"": DATA, "polyreme.error_pages": ["*.md"]})
