"""Maps the top-level folders to one package: `frontend` is `polyreme`, the other rooms are `polyreme.ir`, `polyreme.dialects`, …"""

from setuptools import find_packages, setup

ROOMS = ["ir", "dialects", "lowering", "runtime"]

packages = {"polyreme": "frontend"}
packages |= {"polyreme" + name.removeprefix("frontend"): name.replace(".", "/") for name in find_packages(include=["frontend.*"])}
packages |= {f"polyreme.{name}": name.replace(".", "/") for name in find_packages(include=[f"{r}{s}" for r in ROOMS for s in ("", ".*")])}

setup(packages=list(packages), package_dir=packages, package_data={"": ["*.lark", "*.ll", "*.npz", "*.txt", "py.typed"]})
