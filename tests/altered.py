"""A saved model whose index says something else, with all hashes made anew."""

import hashlib
import json
from pathlib import Path

from safetensors.torch import load, save

from rapgnn.training.checkpoint import INDEX, index_digest


def alter(folder: Path, change, state=None) -> None:
    """Change the index, and make all hashes anew."""
    index = json.loads((folder / INDEX).read_text())
    change(index)
    path = folder / index["weights"]
    state = load(path.read_bytes()) if state is None else state
    schema = json.dumps(index["schema"], sort_keys=True).encode()
    index["schema_hash"] = hashlib.sha256(schema).hexdigest()[:16]
    content = save(state, {"index": index_digest(index)})
    path.write_bytes(content)
    index["sha256"] = hashlib.sha256(content).hexdigest()
    (folder / INDEX).write_text(json.dumps(index))
