"""Replace files and folders in one step, so that a reader never sees half of one."""

import ctypes
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """Fill a temporary folder that then replaces `folder`."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield temporary
        temporary.chmod(0o755)
        if not folder.exists():
            os.replace(temporary, folder)
        elif not _exchange(temporary, folder):
            # Without that system call there is no folder for a moment.
            aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
            os.replace(folder, aside)
            try:
                os.replace(temporary, folder)
            except BaseException:
                os.replace(aside, folder)
                raise
            shutil.rmtree(aside)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _exchange(first: Path, second: Path) -> bool:
    """Swap two paths in one step, where the system can do so (Linux)."""
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None)
    if renameat2 is None:
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    paths = os.fsencode(first.absolute()), os.fsencode(second.absolute())
    return renameat2(here, paths[0], here, paths[1], exchange) == 0


def refuse_foreign(folder: Path, known: Collection[str], what: str) -> None:
    """Refuse a folder that holds files other than the `known` ones of a `what`, since
    they would be lost if it were replaced."""
    if folder.is_file():
        raise ValueError(f"{folder}: a file; a {what} is a folder")
    found = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if foreign := sorted(found - set(known)):
        raise ValueError(
            f"{folder}: holds {foreign[0]!r}, which is not part of a {what} and would "
            "be lost; choose another folder"
        )


def write_file(path: Path, data: str | bytes) -> None:
    """Replace a file in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    payload = data.encode() if isinstance(data, str) else data
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
