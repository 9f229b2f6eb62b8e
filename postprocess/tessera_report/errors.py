"""Errors that end a report with a sentence and an exit code instead of a traceback."""


class Unreadable(Exception):
    """A path that holds nothing to report on, or that cannot be read or written: exit code 4."""


class Usage(Exception):
    """A request that makes no sense for these runs: exit code 2."""
