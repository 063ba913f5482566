# MuJoCo's bindings are compiled and carry no types.
from typing import Any

def __getattr__(name: str) -> Any: ...
