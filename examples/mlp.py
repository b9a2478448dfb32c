"""A classifier of handwritten digits from linear layers: trained, compiled, saved and run again, in one minute of reading.

    python examples/mlp.py
"""

import polyreme as paddle


class MLP(paddle.nn.Layer):
    """784-64-10 with dropout in between."""

    input_spec = [paddle.static.InputSpec([None, 1, 28, 28], "float32", "image")]

    def __init__(self):
        super().__init__()
        self.hidden = paddle.nn.Linear(784, 64)
        self.dropout = paddle.nn.Dropout(0.2)
        self.scores = paddle.nn.Linear(64, 10)

    def forward(self, image):
        x = paddle.flatten(image, 1)
        x = self.dropout(paddle.nn.functional.relu(self.hidden(x)))
        return self.scores(x)


def accuracy(net, images, labels):
    """The part of the images that `net` gets right."""
    return float((net(images).argmax(axis=1) == labels).astype("float32").mean())


def main():
    paddle.seed(0)
    train, test = (tuple(map(paddle.to_tensor, paddle.data.digits(part))) for part in ("train", "test"))
    net = paddle.jit.to_static(MLP())
    loss_of = paddle.nn.CrossEntropyLoss()
    adam = paddle.optimizer.Adam(learning_rate=2e-3, parameters=net.parameters())
    loader = paddle.io.DataLoader(paddle.io.TensorDataset(list(train)), batch_size=64, shuffle=True, drop_last=True)
    for epoch in range(8):
        for images, labels in loader:
            loss = loss_of(net(images), labels)
            loss.backward()
            adam.step()
            adam.clear_grad()
        print(f"epoch {epoch + 1}: loss of the last batch {float(loss):.4f}")
    net.eval()
    print(f"accuracy on held-out digits: {accuracy(net, *test):.3f}")
    return net


if __name__ == "__main__":
    main()
