"""Imported once by the server from which isolated scenarios are forked; never touches the driver."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    try:
        import numba.cuda  # noqa: F401

        import conformance.examine  # noqa: F401
    except Exception:  # noqa: S110 - the scenario itself meets the same error and tells it
        pass
