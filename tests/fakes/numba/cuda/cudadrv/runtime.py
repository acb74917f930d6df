"""The fake's CUDA runtime: there to be imported."""


class Runtime:
    """Says nothing but its version."""

    def get_version(self) -> tuple[int, int]:
        """The version of libcudart."""
        return 12, 9
