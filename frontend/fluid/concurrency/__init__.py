"""Go blocks and channels, with Go's meaning: `fluid.Go`, `make_channel`, `channel_send`, `channel_recv`, `channel_close`, `Select`.

A Go block runs in a thread of its own while the program goes on. When the program has come to its end, Go blocks go on until they end, or
wait; then the run is over. If all wait before, the run ends in an error that names the operators.
"""

from polyreme.fluid.concurrency.blocks import Go, Select
from polyreme.fluid.concurrency.channels import channel_close, channel_recv, channel_send, make_channel
from polyreme.names import listed

__all__ = ["Go", "Select", "channel_close", "channel_recv", "channel_send", "make_channel"]


__dir__ = listed(__name__)
