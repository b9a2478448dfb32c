"""What an installed wheel must do, run by `.ci/run` from a folder without the sources: train a step, save, compile, run, and use the
command line.

Not a pytest file: `python smoke.py` with nothing but the wheel installed. `examples/` stands beside it.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
assert not (HERE / "ir").exists(), "run from a folder without the sources"
sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != HERE]

import polyreme as paddle  # noqa: E402


def command(*args: str) -> str:
    done = subprocess.run([sys.executable, "-m", "polyreme", *args], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"polyreme {' '.join(args)} ended with {done.returncode}:\n{done.stderr}"
    return done.stdout


def main() -> None:
    import numpy as np

    assert "site-packages" in str(paddle.__file__), paddle.__file__
    paddle.seed(1)
    net = paddle.vision.models.LeNet()
    images, labels = paddle.data.digits("test")
    loss = paddle.nn.functional.cross_entropy(net(paddle.to_tensor(images[:8])), paddle.to_tensor(labels[:8]))
    loss.backward()
    paddle.optimizer.SGD(0.01, parameters=net.parameters()).step()
    net.eval()
    expected = net(paddle.to_tensor(images[:8])).numpy()

    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        spec = [paddle.static.InputSpec([None, 1, 28, 28], "float32", "image")]
        library = paddle.compile(net, "lenet.so", input_spec=spec)
        np.testing.assert_allclose(library(images[:8]), expected, rtol=1e-5, atol=1e-5)
        assert Path("lenet.h").read_text().count("lenet_run") >= 1

        paddle.jit.save(net, "lenet", input_spec=spec)
        np.testing.assert_allclose(paddle.jit.load("lenet")(paddle.to_tensor(images[:8])).numpy(), expected, rtol=1e-5, atol=1e-5)

        np.save("image.npy", images[:8])
        command("run", "lenet.so", "--input", "image=image.npy", "-o", "scores.npy")
        np.testing.assert_allclose(np.load("scores.npy"), expected, rtol=1e-5, atol=1e-5)

        for level in ("nn", "tensor", "kernel"):
            command("inspect", f"{HERE}/examples/lenet.py:LeNet", "--level", level, "-o", "lenet.tir")
            assert command("opt", "lenet.tir") == Path("lenet.tir").read_text()
        assert paddle.__version__ in command("--version")
    print("the wheel works")


if __name__ == "__main__":
    main()
