"""`paddle.dataset.flowers`: files as published, made small, and what is said when they are missing or damaged."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

import polyreme as paddle
from polyreme.dataset import flowers
from polyreme.dataset.matlab import read_vectors
from tests.matlab_files import element, matlab, matrix

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six images with labels from 1, of which 2, 5 and 6 are trained with."""
    folder = tmp_path / ".cache" / "paddle" / "dataset" / "flowers"
    folder.mkdir(parents=True)
    with tarfile.open(folder / flowers.IMAGES, "w:gz") as archive:
        for number in range(1, 7):
            stream = io.BytesIO()
            Image.fromarray(np.full((300, 280, 3), (number * 20, 100, 50), np.uint8)).save(stream, "jpeg")
            entry = tarfile.TarInfo(f"jpg/image_{number:05}.jpg")
            entry.size = len(stream.getvalue())
            archive.addfile(entry, io.BytesIO(stream.getvalue()))
    (folder / flowers.LABELS).write_bytes(matlab(matrix("labels", np.array([77, 3, 9, 1, 102, 50], np.uint8))))
    parts = [matrix(name, np.array(ids, "<u2")) for name, ids in (("trnid", [1]), ("valid", [3, 4]), ("tstid", [2, 5, 6]))]
    (folder / flowers.PARTS).write_bytes(matlab(*parts))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in flowers.CHECKSUMS:
        monkeypatch.setitem(flowers.CHECKSUMS, name, hashlib.md5((folder / name).read_bytes()).hexdigest())
    return folder


def test_parts_have_their_images_and_labels(files: Path) -> None:
    assert [label for _, label in paddle.dataset.flowers.train()()] == [2, 101, 49]
    assert [label for _, label in flowers.test()()] == [76] and [label for _, label in flowers.valid()()] == [8, 0]
    (image, _), *_ = flowers.valid()()
    assert image.dtype == np.float32 and image.shape == (3 * 224 * 224,)
    np.testing.assert_allclose(image.reshape(3, -1).mean(1), np.array([50, 100, 60]) - flowers.MEAN, atol=3)
    assert [type(data) for data, _ in flowers.train(mapper=lambda sample: sample)()] == [bytes] * 3


def test_a_reader_is_read_in_batches_and_again(files: Path) -> None:
    reader = paddle.batch(flowers.train(lambda sample: sample[1], cycle=True), 4)
    assert next(iter(reader())) == [2, 101, 49, 2]


def test_a_missing_file_is_named_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(
        RuntimeError,
        match=r"102flowers.tgz but it is not there: nothing is downloaded, put 102flowers.tgz, imagelabels.mat, setid.mat there",
    ):
        flowers.train()


def test_a_damaged_file_is_named(files: Path) -> None:
    (files / flowers.PARTS).write_bytes(b"changed")
    with pytest.raises(RuntimeError, match=r"setid.mat with the MD5 checksum .* it is damaged or another file"):
        flowers.train()


def test_files_that_are_no_vectors_are_refused_however_they_end() -> None:
    whole = matlab(matrix("labels", np.arange(9, dtype=np.uint8)))
    np.testing.assert_array_equal(read_vectors(whole)["labels"], np.arange(9))
    for end in range(129, len(whole)):
        with pytest.raises(ValueError, match="MATLAB file"):
            read_vectors(whole[:end])
    for wrong in (b"", b"x" * 200, matlab(element(14, element(6, bytes(8)))), matlab(element(14, b"abc"))):
        with pytest.raises(ValueError, match="MATLAB file"):
            read_vectors(wrong)
