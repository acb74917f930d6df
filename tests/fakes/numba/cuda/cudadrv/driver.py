"""The fake's linkers: they look at file names, and make an image of nothing."""

from pathlib import Path

import vices


class LinkerError(RuntimeError):
    """What a linker says."""


class CtypesLinker:
    """Links for a kernel: `names` are those of its code, by which vices are found."""

    def __init__(self, names: list[str], lto: bool = False):
        if lto:
            raise ValueError("this linker has no LTO")
        self.names = names
        self.late: Exception | bool = False

    def add_file(self, path: str) -> None:
        """Take a file, if there is one."""
        if not Path(path).exists():
            error = LinkerError(f"{path} not found")
            late = vices.act("missing", self.names, error)
            if late is None:
                raise error
            self.late = late

    def add_data(self, data: bytes) -> None:
        """Take code in memory, as it is."""

    def complete(self, undefined: list[str]) -> bytes:
        """Link; functions that nothing defines are an error."""
        vices.act("complete", self.names)
        if self.late:
            raise self.late
        if undefined:
            raise LinkerError(f"undefined reference to {', '.join(undefined)}")
        return b"image"


class CudaPythonLinker(CtypesLinker):
    """Another linker, for those who take the wrong one."""


class Context:
    """The context that loads images."""

    def create_module_image(self, image: bytes) -> bytes:
        """Load an image."""
        return image
