"""The digits that come with the package."""

from __future__ import annotations

import numpy as np
import pytest

from polyreme.data import digits


def test_the_parts_are_disjoint_and_make_up_the_whole() -> None:
    train, test, everything = digits("train"), digits("test"), digits()
    assert (len(train.labels), len(test.labels), len(everything.labels)) == (1440, 357, 1797)
    joined = np.concatenate([train.images, test.images])
    assert sorted(i.tobytes() for i in joined) == sorted(i.tobytes() for i in everything.images)


@pytest.mark.parametrize("part", ["train", "test"])
def test_every_digit_is_in_both_parts_about_equally_often(part: str) -> None:
    counts = np.bincount(digits(part).labels, minlength=10)
    assert counts.min() > 0.8 * counts.mean()


def test_images_are_the_originals_enlarged() -> None:
    images, labels = digits()
    assert images.shape == (1797, 1, 28, 28) and images.dtype == np.float32
    assert labels.dtype == np.int64 and set(labels) == set(range(10))
    assert images.min() == -1 and images.max() == 1
    # The first image of the set is a well known zero; its first row of pixels is 0 0 5 13 9 1 0 0.
    row = (images[0, 0, 3, 3:26:3] + 1) * 8
    np.testing.assert_allclose(row, [0, 0, 5, 13, 9, 1, 0, 0], atol=1e-5)
    assert labels[0] == 0
    # Between two centres the values lie on a line.
    np.testing.assert_allclose((images[0, 0, 3, 9:13] + 1) * 8, [5, 5 + 8 / 3, 13 - 8 / 3, 13], atol=1e-5)
    assert (images[:, :, :2] == -1).all() and (images[:, :, :, -2:] == -1).all()


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(ValueError, match="expected part to be 'train', 'test' or 'all' but got 'dev'"):
        digits("dev")
