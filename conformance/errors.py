"""The one exception that the suite raises about itself (never about a linker under test)."""


class SuiteError(Exception):
    """The suite cannot go on; the text says what is wrong and how to mend it."""
