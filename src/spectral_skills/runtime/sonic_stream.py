"""Messages with which a ZMQ publisher streams tokens to SONIC's C++ runtime; no torch.

A message is one part: the topic, a JSON header padded with zeros, and the arrays. To
drive the stock runtime, started with `--input-type zmq`, publish one every 20 ms:

    socket.bind("tcp://*:5556")  # a zmq.PUB socket
    socket.send(token_message(token, step))
"""

import json

import numpy as np

HEADER_BYTES = 1280
VERSION = 4
"""Version of the protocol in which tokens come from outside, not from an encoder."""
TOPIC = "pose"


def token_message(token: np.ndarray, step: int) -> bytes:
    """Return the message of one control step; `token` (d + 2,) is skill and phase."""
    token = np.asarray(token, np.dtype("<f4"))
    if token.ndim != 1 or not np.isfinite(token).all():
        raise ValueError(f"a token of shape {token.shape}, must be finite and (d,)")
    arrays = {"token_state": token, "frame_index": np.array([step], np.dtype("<i8"))}
    names = {"f4": "f32", "i8": "i64"}
    fields = [
        {"name": name, "dtype": names[array.dtype.str[1:]], "shape": array.shape}
        for name, array in arrays.items()
    ]
    about = {"v": VERSION, "endian": "le", "count": 1, "fields": fields}
    header = json.dumps(about).encode().ljust(HEADER_BYTES, b"\0")
    assert len(header) == HEADER_BYTES
    data = b"".join(array.tobytes() for array in arrays.values())
    return TOPIC.encode() + header + data
