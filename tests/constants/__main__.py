"""The command: see the package."""

from __future__ import annotations

from tests.constants.count import by_file


def main() -> None:
    """A line for each file, the one with the most constants first, and how many there are."""
    found = sorted(by_file(), key=lambda item: -len(item[1]))
    for name, names in found:
        print(f"{len(names):3} {name}: {', '.join(names)}")
    print(f"{sum(len(names) for _, names in found)} in {len(found)} files")


if __name__ == "__main__":
    main()
